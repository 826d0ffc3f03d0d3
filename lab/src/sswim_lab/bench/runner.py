"""Running the fits of a benchmark that its results file lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol, runtime_checkable

from sswim.base.validation import UserError
from sswim_lab.bench.accuracy import Job, Row, failed_row, load_split, run_fit
from sswim_lab.bench.methods import require_method
from sswim_lab.bench.results import append_results, read_results
from sswim_lab.bench.workers import run_jobs

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
    "pumadyn32nm",
    "kin8nm",
    "powerplant",
    "winered",
    "mcycle",
    "maunaloa_co2",
)
"""The default data sets of the benchmark."""
MANY_ROWS = 10_000
REPEATS, REPEATS_OF_MANY = 5, 3
"""Default repeats of a set with at most ``MANY_ROWS`` rows, and of a larger set."""
LEFT_OUT = "left out"
"""Start of the failure message of a fit that was not tried."""
FAILURE_LENGTH = 300
"""Maximum number of characters of a failure message."""


@dataclass(frozen=True)
class Bench:
    """Settings of a benchmark."""

    sets: Sequence[str]
    methods: Sequence[str]
    out: Path
    """The results file."""
    repeats: int | None = None
    """Repeats of every data set; None for ``default_repeats``, or ``REPEATS_OF_MANY`` of a large
    set."""
    device: str = "auto"
    folder: str | None = None
    """Folder of the data sets; by default all folders of ``sswim_lab.datasets`` are searched."""
    resume: bool = True
    """Whether to add to an existing results file."""
    workers: int = 1
    """Number of processes."""
    retry: bool = False
    """Whether to repeat fits that failed before."""
    default_repeats: int = REPEATS

    @classmethod
    def named(cls, sets: str, methods: str, *others: Any) -> Bench:
        """Make a benchmark from comma-separated names, of ``SETS`` if no set is named."""
        return cls(split_names(sets) or SETS, split_names(methods), *others)


@dataclass(frozen=True)
class Plan:
    """The fits to run."""

    jobs: tuple[Job, ...]
    n_done: int
    """Number of requested fits that the results file already has."""
    notes: tuple[str, ...]
    """Messages about methods that are left out, with the reason."""
    left_out: tuple[Row, ...]
    """Failure rows of the fits that are left out, except those already in the results file."""

    @property
    def progress(self) -> str:
        """A line with the numbers of fits to run and of finished fits."""
        return count_jobs(len(self.jobs), self.n_done)


@runtime_checkable
class Outcome(Protocol):
    """A result of a fit."""

    @property
    def failure(self) -> str:
        """Why the fit failed, empty if it did not."""


def make_plan(bench: Bench) -> Plan:
    """Validate the settings, and find the fits that are missing; nothing is written."""
    require_counts(bench.repeats, bench.workers)
    if bench.out.exists() and not bench.resume:
        raise FileExistsError(
            f"{str(bench.out)!r} exists already and is not overwritten. Add to it (--resume), "
            "or give another file (--out)."
        )
    before = {row.job: row for row in read_results(bench.out)} if bench.out.exists() else {}
    methods = {name: require_method(name) for name in bench.methods}
    wanted: list[Job] = []
    notes, left_out = [], []
    for name in dict.fromkeys(bench.sets):
        rows = load_split(name, 0, bench.folder)
        n_train, n_rows = len(rows.train_y), len(rows.train_y) + len(rows.test_y)
        default = bench.default_repeats if n_rows <= MANY_ROWS else REPEATS_OF_MANY
        repeats = bench.repeats or default
        for label, method in methods.items():
            jobs = [Job(name, label, repeat) for repeat in range(repeats)]
            if method.max_rows is None or n_train <= method.max_rows:
                wanted += jobs
                continue
            reason = f"{n_train} training rows are more than the {method.max_rows} it is meant for"
            notes.append(f"{label} is left out on {name}: {reason}.")
            left_out += [
                failed_row(job, bench.device, f"{LEFT_OUT}: {reason}")
                for job in jobs
                if job not in before
            ]
    wanted.sort(key=lambda job: job.repeat)  # so that every mean exists early, over few repeats
    missing = missing_jobs(wanted, before, retry=bench.retry)
    return Plan(missing, len(wanted) - len(missing), tuple(notes), tuple(left_out))


def run(bench: Bench, plan: Plan, ended: Callable[[Row], None]) -> list[Row]:
    """Run the fits of a plan, and call ``ended`` with each row after it is in the results file.

    Returns:
        The rows of the fits that failed.
    """
    bench.out.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    results = run_jobs(
        partial(run_job, device=bench.device, folder=bench.folder),
        plan.jobs,
        bench.workers,
        lambda job, failure: failed_row(job, bench.device, failure),
    )
    with closing(results):
        for row in results:
            append_results(bench.out, [row])
            if row.failure:
                failures.append(row)
            ended(row)
    return failures


def run_job(job: Job, device: str, folder: str | None) -> Row:
    """Run a fit; if it raises an error, return the row of a failed fit."""
    try:
        return run_fit(job, device, folder)
    except Exception as error:  # the other fits go on
        return failed_row(job, device, failure_message(error))


def failure_message(error: Exception) -> str:
    """Return the type and the text of an error in one short line."""
    return shorten(f"{type(error).__name__}: {error}", FAILURE_LENGTH, placeholder=" …")


def missing_jobs(
    wanted: Iterable[Job], before: Mapping[Job, Outcome], *, retry: bool
) -> tuple[Job, ...]:
    """Return the jobs that have no result yet; with ``retry`` also those that failed."""
    return tuple(job for job in wanted if job not in before or (retry and before[job].failure))


def count_jobs(n_missing: int, n_done: int) -> str:
    """Return a line with the numbers of fits to run and of finished fits."""
    return f"{n_missing} fits to do, {n_done} done before."


def require_counts(repeats: int | None, workers: int) -> None:
    """Raise an error unless the numbers of repeats and of workers are positive."""
    for name, value in (("repeats", repeats), ("workers", workers)):
        if value is not None and value < 1:
            raise UserError(f"{name} must be at least 1. Got {value}.")


def split_names(text: str) -> tuple[str, ...]:
    """Split comma-separated names."""
    return tuple(name.strip() for name in text.split(",") if name.strip())
