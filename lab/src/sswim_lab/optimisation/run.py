"""One run of a method on a problem."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sswim_lab.bench.runner import failure_message
from sswim_lab.optimisation.first_points import n_first, sobol_points
from sswim_lab.optimisation.methods import method_named, versions
from sswim_lab.optimisation.problems import problem_named
from sswim_lab.peers.global_state import silenced

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
