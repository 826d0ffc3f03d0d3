"""Doing the runs of the benchmark that its results file lacks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sswim.base.validation import UserError
from sswim_lab.bench.runner import split_names
from sswim_lab.bench.workers import run_jobs
from sswim_lab.optimisation.methods import METHODS, method_named, require_libraries
from sswim_lab.optimisation.problems import PROBLEMS, problem_named
from sswim_lab.optimisation.results import append_run, read_runs
from sswim_lab.optimisation.run import Job, Run, do_run, failed_run


@dataclass(frozen=True)
class Bench:
    """Settings of the benchmark."""

    problems: Sequence[str]
    methods: Sequence[str]
    out: Path
    """The results file, to which runs are added."""
    seeds: int = 10
    evaluations: int = 60
    workers: int = 1
    """Number of processes, each with one thread."""
    time_limit: float | None = None
    """Seconds after which no run starts."""
    retry: bool = False
    """Whether to repeat runs that failed before."""

    def __post_init__(self) -> None:
        for name in ("seeds", "evaluations", "workers"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1. Got {getattr(self, name)}.")
        for problem in map(problem_named, self.problems):
            require_libraries(problem)
        for method in map(method_named, self.methods):
            require_libraries(method)


def names(text: str, default: Sequence[str]) -> tuple[str, ...]:
    """Return comma-separated names without repeats, or the default if there are none."""
    return tuple(dict.fromkeys(split_names(text) or default))


def problem_names(text: str) -> tuple[str, ...]:
    """Return the problems in comma-separated names; all by default."""
    return names(text, tuple(PROBLEMS))


def method_names(text: str) -> tuple[str, ...]:
    """Return the methods in comma-separated names; all by default."""
    return names(text, tuple(METHODS))


def missing_runs(bench: Bench) -> tuple[Job, ...]:
    """Return the runs that the results file lacks.

    Seeds come first and methods last, so that what is done before a limit compares all methods.
    """
    before = {run.job: run for run in read_runs(bench.out)}
    wanted = (
        Job(problem, method, seed, bench.evaluations)
        for seed in range(bench.seeds)
        for problem in bench.problems
        for method in bench.methods
    )
    return tuple(
        job for job in wanted if job not in before or (bench.retry and before[job].failure)
    )


def do_runs(bench: Bench, jobs: Sequence[Job], ended: Callable[[Run], None]) -> list[Run]:
    """Do runs, and call ``ended`` with each after it is in the results file.

    Returns:
        The runs that failed.
    """
    bench.out.parent.mkdir(parents=True, exist_ok=True)
    deadline = math.inf if bench.time_limit is None else time.time() + bench.time_limit
    results = run_jobs(partial(do_run_in_time, deadline=deadline), jobs, bench.workers, failed_run)
    failures = []
    with closing(results):
        for run in results:
            if run is None:
                continue
            append_run(bench.out, run)
            if run.failure:
                failures.append(run)
            ended(run)
    return failures


def do_run_in_time(job: Job, deadline: float) -> Run | None:
    """Do a run, unless the deadline, in seconds since 1970, has passed."""
    return do_run(job) if time.time() < deadline else None
