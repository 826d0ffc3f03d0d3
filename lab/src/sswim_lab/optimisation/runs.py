"""Runs of methods on problems, and their results file: JSON, one line for each run."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sswim.base.validation import UserError
from sswim_lab.bench.runner import failure_message, split_names
from sswim_lab.bench.workers import run_jobs
from sswim_lab.optimisation.methods import (
    METHODS,
    method_named,
    n_first,
    require_libraries,
    sobol_points,
    versions,
)
from sswim_lab.optimisation.problems import PROBLEMS, problem_named
from sswim_lab.peers.protocol import silenced

ROUNDS = 6
"""Decimals of stored seconds."""


@dataclass(frozen=True)
class Job:
    """A run to do."""

    problem: str
    method: str
    seed: int
    evaluations: int

    def __str__(self) -> str:
        return f"{self.method} on {self.problem}, seed {self.seed}"


@dataclass(frozen=True)
class Run:
    """A finished run, one line of the results file."""

    problem: str
    method: str
    seed: int
    evaluations: int
    """Number of evaluations that were asked for."""
    n_first: int
    """Number of first points, which all methods share."""
    values: tuple[float, ...]
    """The value of every evaluation, in order."""
    seconds: tuple[float, ...]
    """Seconds of every suggestion after the first points."""
    settings: Mapping[str, Any]
    versions: str
    failure: str = ""
    """Why the run ended early, empty if it did not."""

    @property
    def job(self) -> Job:
        """The job whose result this is."""
        return Job(self.problem, self.method, self.seed, self.evaluations)


def do_run(job: Job) -> Run:
    """Evaluate the first points, then each point that the method suggests, with one thread.

    A method that fails ends the run, and its error is stored with the values so far.
    """
    problem, method = problem_named(job.problem), method_named(job.method)
    n_start = min(n_first(problem.dimension), job.evaluations)
    points = sobol_points(problem.dimension, n_start, job.seed)
    seconds: list[float] = []
    values: list[float] = []
    failure = ""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with silenced():
            values += map(problem, points)
            while len(values) < job.evaluations:
                start = time.perf_counter()
                point = method.suggest(points, np.array(values), job.seed)
                seconds.append(round(time.perf_counter() - start, ROUNDS))
                if not np.isfinite(point).all():
                    raise ValueError(f"A suggestion must be finite. Got {point.tolist()}.")
                points = np.vstack([points, np.clip(point, 0, 1)])
                values.append(problem(points[-1]))
    except Exception as error:  # the other runs go on
        failure = failure_message(error)
    finally:
        torch.set_num_threads(threads)
    return Run(
        **vars(job),
        n_first=n_start,
        values=tuple(values),
        seconds=tuple(seconds),
        settings=method.settings,
        versions=versions(method, problem),
        failure=failure,
    )


def failed_run(job: Job, failure: str) -> Run:
    """Return the result of a run whose process died."""
    dimension = problem_named(job.problem).dimension
    return Run(
        **vars(job),
        n_first=n_first(dimension),
        values=(),
        seconds=(),
        settings={},
        versions="",
        failure=failure,
    )


def read_runs(path: Path) -> list[Run]:
    """Read the runs of a file; a missing file has none, a damaged line raises UserError."""
    if not path.exists():
        return []
    runs = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            fields = json.loads(line)
            lists = {name: tuple(fields[name]) for name in ("values", "seconds")}
            runs.append(Run(**{**fields, **lists}))
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"Line {number} of {str(path)!r} is not a run: {error}.") from error
    return runs


def append_run(path: Path, run: Run) -> None:
    """Append a run to a file; it is on disk on return."""
    with path.open("ab") as file:
        # One write, so that an interruption splits no line.
        file.write(json.dumps(asdict(run), ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


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
