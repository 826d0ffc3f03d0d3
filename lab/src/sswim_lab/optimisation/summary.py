"""Summary of runs: regrets and seconds by problem and method."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from jaxtyping import Float64

from sswim_lab.optimisation.methods import METHODS
from sswim_lab.optimisation.problems import PROBLEMS
from sswim_lab.optimisation.runs import Run

LATE = 10
"""Number of last suggestions whose seconds are summarised apart."""
FLOOR = 1e-9
"""Regrets below this one are rounding errors: ratios and figures take them as this one."""
OURS = "sswim"
GPS = ("gp", "gp-warp")
"""Models of the GPs with which this package's model is compared."""


@dataclass(frozen=True)
class Quartiles:
    """The middle and both quartiles of a sample."""

    lower: float
    median: float
    upper: float


@dataclass(frozen=True)
class ProblemSummary:
    """Runs of all methods on a problem."""

    problem: str
    optimum: float
    """The least value that is known, from the stored search or from any run."""
    regrets: Mapping[str, Float64[np.ndarray, "R N"]]
    """By method, one row per run: the best value so far, less the optimum."""
    failures: Mapping[str, int]
    """Number of runs by method that ended early; their best value stays."""

    def after(self, method: str) -> Quartiles:
        """Return the regrets after all evaluations."""
        return Quartiles(*np.quantile(self.regrets[method][:, -1], (0.25, 0.5, 0.75)).tolist())

    @property
    def stationary(self) -> bool:
        """Whether the problem is a stationary control."""
        return not PROBLEMS[self.problem].nonstationary

    @property
    def fresh(self) -> bool:
        """Whether our model's settings were fixed before it was tried on the problem."""
        return PROBLEMS[self.problem].fresh

    @property
    def ratios(self) -> dict[str, float]:
        """Median regret by method of ours, over the least of the GPs with its acquisition."""
        found = {}
        for name in self.regrets:
            acquisition = name.removeprefix(f"{OURS}-")
            rivals = [f"{gp}-{acquisition}" for gp in GPS if f"{gp}-{acquisition}" in self.regrets]
            if name != acquisition and rivals:
                best = min(self.after(rival).median for rival in rivals)
                found[name] = max(self.after(name).median, FLOOR) / max(best, FLOOR)
        return found


@dataclass(frozen=True)
class Seconds:
    """Median seconds of a suggestion."""

    all: float
    late: float
    """Only the last suggestions of every run."""


@dataclass(frozen=True)
class Summary:
    """Summary of runs."""

    evaluations: int
    methods: tuple[str, ...]
    problems: tuple[ProblemSummary, ...]
    seconds: Mapping[str, Seconds]
    """By method, over all problems."""

    def mean_ratio(self, method: str, *, stationary: bool, fresh: bool) -> tuple[float, int]:
        """Return the geometric mean of a method's ratios, and the number of problems."""
        logs = [
            math.log(each.ratios[method])
            for each in self.problems
            if (each.stationary, each.fresh) == (stationary, fresh) and method in each.ratios
        ]
        return (math.exp(fmean(logs)) if logs else math.nan), len(logs)


def summarise(runs: Iterable[Run], evaluations: int) -> Summary:
    """Summarise the first evaluations of all runs that were asked for so many.

    Of two runs of the same method, problem and seed the later one counts.
    """
    latest = {
        (run.problem, run.method, run.seed): run for run in runs if run.evaluations >= evaluations
    }
    kept = list(latest.values())
    methods = [name for name in METHODS if any(run.method == name for run in kept)]
    problems = [name for name in PROBLEMS if any(run.problem == name for run in kept)]
    return Summary(
        evaluations,
        tuple(methods),
        tuple(
            _summarise_problem(name, [run for run in kept if run.problem == name], evaluations)
            for name in problems
        ),
        {
            method: _seconds([run for run in kept if run.method == method], evaluations)
            for method in methods
        },
    )


def _summarise_problem(name: str, runs: Sequence[Run], evaluations: int) -> ProblemSummary:
    found = [min(run.values) for run in runs if run.values]
    optimum = min([PROBLEMS[name].optimum.value, *found])
    methods = [method for method in METHODS if any(run.method == method for run in runs)]
    regrets = {}
    for method in methods:
        rows = [
            _best_so_far(run.values, evaluations) - optimum
            for run in runs
            if run.method == method and run.values
        ]
        if rows:
            regrets[method] = np.stack(rows)
    failures = {
        method: sum(bool(run.failure) for run in runs if run.method == method) for method in methods
    }
    return ProblemSummary(name, optimum, regrets, failures)


def _best_so_far(values: Sequence[float], evaluations: int) -> Float64[np.ndarray, " N"]:
    """Return the least value after every evaluation; the last one stays if some are missing."""
    best = np.minimum.accumulate(values[:evaluations])
    return np.pad(best, (0, evaluations - len(best)), mode="edge")


def _seconds(runs: Sequence[Run], evaluations: int) -> Seconds:
    suggestions = [run.seconds[: evaluations - run.n_first] for run in runs]
    late = [
        each
        for run, found in zip(runs, suggestions, strict=True)
        for each in found[max(evaluations - run.n_first - LATE, 0) :]
    ]
    return Seconds(_median([each for found in suggestions for each in found]), _median(late))


def _median(values: Sequence[float]) -> float:
    return float(np.median(values)) if values else math.nan
