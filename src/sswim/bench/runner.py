"""Running the fits of a bench that are missing in a file of results."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sswim.bench.accuracy import Job, Row, run_fit
from sswim.bench.methods import require_method
from sswim.bench.results import append_results, read_results
from sswim.data.named import DATA_SETS, split

MANY_ROWS = 10_000
REPEATS, REPEATS_OF_MANY = 10, 3
"""By default, of a set of at most ``MANY_ROWS`` rows and of a larger one."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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

    @classmethod
    def named(cls, sets: str, methods: str, *others: Any) -> Bench:
        """Sets and methods as a command has them: names with commas between."""
        return cls(_names(sets) or list(DATA_SETS), _names(methods), *others)


@dataclass(frozen=True)
class Plan:
    """What is to be done."""

    jobs: tuple[Job, ...]
    n_done: int
    """Fits asked for that the file of results has already."""
    notes: tuple[str, ...]
    """What is left out, and why."""

    @property
    def progress(self) -> str:
        """How much there is to do."""
        return f"{len(self.jobs)} fits to do, {self.n_done} done before."


@dataclass(frozen=True)
class Failure:
    """A fit that came to nothing."""

    job: Job
    error: str

    def __str__(self) -> str:
        return f"{self.job}: {self.error}"


def make_plan(bench: Bench) -> Plan:
    """Check what is asked for, and leave out what is there already; nothing is written."""
    for name, value in (("repeats", bench.repeats), ("workers", bench.workers)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1. Got {value}.")
    if bench.out.exists() and not bench.resume:
        raise FileExistsError(
            f"{str(bench.out)!r} is there already and is not overwritten. Add to it (--resume), "
            "or name another file (--out)."
        )
    done = {row.job for row in read_results(bench.out)} if bench.out.exists() else set()
    methods = {name: require_method(name) for name in bench.methods}
    wanted, notes = [], []
    for name in dict.fromkeys(bench.sets):
        rows = split(name, 0, bench.folder)
        n_train, n_rows = len(rows.train_y), len(rows.train_y) + len(rows.test_y)
        repeats = bench.repeats or (REPEATS if n_rows <= MANY_ROWS else REPEATS_OF_MANY)
        for label, method in methods.items():
            if method.max_rows is not None and n_train > method.max_rows:
                notes.append(
                    f"{label} is left out on {name}: {n_train} training rows are more than "
                    f"the {method.max_rows} it is meant for."
                )
                continue
            wanted += [Job(name, label, repeat) for repeat in range(repeats)]
    wanted.sort(key=lambda job: job.repeat)  # so that means over few repeats are there soon
    missing = tuple(job for job in wanted if job not in done)
    return Plan(missing, len(wanted) - len(missing), tuple(notes))


def run(bench: Bench, plan: Plan, ended: Callable[[Row | Failure], None]) -> list[Failure]:
    """Do the fits of a plan; each is in the file before ``ended`` hears of it."""
    bench.out.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    with closing(_results(bench, plan.jobs)) as results:
        for result in results:
            if isinstance(result, Row):
                append_results(bench.out, [result])
            else:
                failures.append(result)
            ended(result)
    return failures


def run_job(job: Job, device: str, folder: str | None) -> Row | Failure:
    """Do a fit, whatever comes of it."""
    try:
        return run_fit(job, device, folder)
    except Exception as error:  # the others go on
        return Failure(job, f"{type(error).__name__}: {error}")


def _results(bench: Bench, jobs: Sequence[Job]) -> Generator[Row | Failure, None, None]:
    """Results as they come: in this process, or from several."""
    if bench.workers == 1:
        for job in jobs:
            yield run_job(job, bench.device, bench.folder)
        return
    threads = max(1, (os.cpu_count() or 1) // bench.workers)
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    with (
        _threads_of_children(threads),
        ProcessPoolExecutor(bench.workers, context, _start_worker, (threads,)) as pool,
    ):
        others = set(multiprocessing.active_children())
        futures = {pool.submit(run_job, job, bench.device, bench.folder): job for job in jobs}
        try:
            for future in as_completed(futures):
                error = future.exception()  # of the process: a fit returns its own
                yield future.result() if error is None else Failure(futures[future], repr(error))
        except BaseException:  # Ctrl-C: the fits under way are given up, and the pool with them
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


def _start_worker(threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    torch.set_num_threads(threads)


@contextmanager
def _threads_of_children(threads: int) -> Iterator[None]:
    """New processes read these variables when their libraries are loaded."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
