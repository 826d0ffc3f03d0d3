"""Running the fits of a bench that are missing in a file of results."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any

from sswim.lab.bench.accuracy import Job, Row, failed, run_fit
from sswim.lab.bench.methods import require_method
from sswim.lab.bench.results import append_results, read_results
from sswim.lab.bench.stand_in import split_of
from sswim.lab.bench.workers import run_in_processes

SETS = (
    "elevators",
    "airfoil",
    "concrete",
    "parkinsons",
    "bikeshare",
    "supercond",
    "protein",
    "abalone",
    "creep",
    "ailerons",
)
"""The data sets of the bench, by default."""
MANY_ROWS = 10_000
REPEATS, REPEATS_OF_MANY = 10, 3
"""By default, of a set of at most ``MANY_ROWS`` rows and of a larger one."""
LEFT_OUT = "left out"
"""How the failure of a fit begins that was not tried."""
FAILURE_LENGTH = 300
"""The most characters that a row has for what went wrong."""


@dataclass(frozen=True)
class Bench:
    """What is asked for."""

    sets: Sequence[str]
    methods: Sequence[str]
    out: Path
    repeats: int | None = None
    """Of every set; by default fewer of the large ones."""
    device: str = "auto"
    folder: str | None = None
    """Of the data sets; by default what the variable SSWIM_DATA says."""
    resume: bool = True
    workers: int = 1
    retry: bool = False
    """Whether fits that failed before are done again."""

    @classmethod
    def named(cls, sets: str, methods: str, *others: Any) -> Bench:
        """Sets and methods as a command has them: names with commas between."""
        return cls(names(sets) or SETS, names(methods), *others)


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    jobs: tuple[Job, ...]
    n_done: int
    """Fits asked for that the file of results has already."""
    notes: tuple[str, ...]
    """What is left out, and why."""
    left_out: tuple[Row, ...]
    """Rows that say so of every fit, less those of which the file says something already."""

    @property
    def progress(self) -> str:
        """How much there is to do."""
        return f"{len(self.jobs)} fits to do, {self.n_done} done before."


def make_plan(bench: Bench) -> Plan:
    """Check what is asked for, and leave out what is there already; nothing is written."""
    require_numbers(bench.repeats, bench.workers)
    if bench.out.exists() and not bench.resume:
        raise FileExistsError(
            f"{str(bench.out)!r} is there already and is not overwritten. Add to it (--resume), "
            "or name another file (--out)."
        )
    before = {row.job: row for row in read_results(bench.out)} if bench.out.exists() else {}
    done = {job for job, row in before.items() if not (bench.retry and row.failure)}
    methods = {name: require_method(name) for name in bench.methods}
    wanted: list[Job] = []
    notes, left_out = [], []
    for name in dict.fromkeys(bench.sets):
        rows = split_of(name, 0, bench.folder)
        n_train, n_rows = len(rows.train_y), len(rows.train_y) + len(rows.test_y)
        repeats = bench.repeats or (REPEATS if n_rows <= MANY_ROWS else REPEATS_OF_MANY)
        for label, method in methods.items():
            jobs = [Job(name, label, repeat) for repeat in range(repeats)]
            if method.max_rows is None or n_train <= method.max_rows:
                wanted += jobs
                continue
            why = f"{n_train} training rows are more than the {method.max_rows} it is meant for"
            notes.append(f"{label} is left out on {name}: {why}.")
            left_out += [
                failed(job, bench.device, f"{LEFT_OUT}: {why}") for job in jobs if job not in before
            ]
    wanted.sort(key=lambda job: job.repeat)  # so that means over few repeats are there soon
    missing = tuple(job for job in wanted if job not in done)
    return Plan(missing, len(wanted) - len(missing), tuple(notes), tuple(left_out))


def run(bench: Bench, plan: Plan, ended: Callable[[Row], None]) -> list[Row]:
    """Do the fits of a plan; each is in the file before ``ended`` hears of it.

    Returns:
        The rows of those that failed.
    """
    bench.out.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    with closing(_results(bench, plan.jobs)) as results:
        for row in results:
            append_results(bench.out, [row])
            if row.failure:
                failures.append(row)
            ended(row)
    return failures


def run_job(job: Job, device: str, folder: str | None) -> Row:
    """Do a fit, whatever comes of it."""
    try:
        return run_fit(job, device, folder)
    except Exception as error:  # the others go on
        return failed(job, device, reason(error))


def reason(error: Exception) -> str:
    """What went wrong, in a short line."""
    return shorten(f"{type(error).__name__}: {error}", FAILURE_LENGTH, placeholder=" …")


def require_numbers(repeats: int | None, workers: int) -> None:
    """Refuse numbers with which nothing would be done."""
    for name, value in (("repeats", repeats), ("workers", workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1. Got {value}.")


def names(text: str) -> tuple[str, ...]:
    """Names as a command has them, with commas between."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _results(bench: Bench, jobs: Sequence[Job]) -> Generator[Row, None, None]:
    """Results as they come: in this process, or from several."""
    do = partial(run_job, device=bench.device, folder=bench.folder)
    if bench.workers == 1:
        for job in jobs:
            yield do(job)
        return

    def died(job: Job, code: int | None) -> Row:
        why = ", often for want of memory" if code == -signal.SIGKILL else ""
        return failed(job, bench.device, f"ProcessDied: its exit code is {code}{why}")

    yield from run_in_processes(do, jobs, bench.workers, died)
