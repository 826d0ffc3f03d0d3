"""Summary of results: means over repeats, the best published scores, and numbers of wins."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.comparison import Comparison, SetScores, compare
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.published import Published, best_published
from sswim_lab.datasets import DATA_SETS

ORIGINAL_SCALE = ("abalone", "creep", "ailerons")
"""Data sets whose published scores are in the target's unit; others have standardised targets."""


@dataclass(frozen=True)
class Mean:
    """Mean of a score over the repeats that did not fail."""

    value: float
    std: float
    """Standard deviation over the repeats; NaN for one repeat."""
    n: int
    """Number of repeats."""

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.std / math.sqrt(self.n)


@dataclass(frozen=True)
class Cell:
    """Scores of all methods on one data set in one metric."""

    set: str
    metric: str
    means: dict[str, Mean]
    """Mean by method, for methods with a repeat that did not fail."""
    failures: dict[str, int]
    """Number of failed repeats by method, for every method that was tried."""
    published: Published | None
    """The best published score."""

    @property
    def best(self) -> frozenset[str]:
        """Methods with the smallest mean."""
        return best_methods(_values(self.means))


@dataclass(frozen=True)
class Wins:
    """Numbers of cells and data sets on which a method of this package is the best."""

    method: str
    reached: int
    """Number of cells in which it is at least as good as the best published score."""
    n_cells: int
    """Number of cells with a published score."""
    errors: int
    """Number of data sets on which its error is smaller than that of every peer."""
    densities: int
    """Number of data sets on which its MNLP is smaller than that of every peer."""
    both: int
    """Number of data sets on which both are smaller."""
    n_sets: int
    """Number of data sets with a peer to compare with."""
    comparison: Comparison | None = None
    """Comparison with the peers in standardised scores; None if no data set has a CRPS."""


@dataclass(frozen=True)
class Summary:
    """A table of results with cells for each data set: the error, the MNLP and any CRPS."""

    methods: tuple[str, ...]
    cells: tuple[Cell, ...]
    comparisons: dict[str, Comparison | None]
    """Comparisons with the peers by method of this package; None without a data set."""

    @property
    def wins(self) -> tuple[Wins, ...]:
        """Wins of every method of this package."""
        return tuple(self._count_wins(name) for name in self.methods if is_ours(name))

    def _count_wins(self, method: str) -> Wins:
        cells = [cell for cell in self.cells if method in cell.means]
        compared = [
            cell.means[method].value <= cell.published.value for cell in cells if cell.published
        ]
        wins: dict[str, list[bool]] = {}
        for cell in (cell for cell in cells if cell.metric != "CRPS"):
            others = [mean.value for name, mean in cell.means.items() if not is_ours(name)]
            if others:
                wins.setdefault(cell.set, []).append(cell.means[method].value < min(others))
        return Wins(
            method,
            sum(compared),
            len(compared),
            sum(error for error, _ in wins.values()),
            sum(density for _, density in wins.values()),
            sum(all(pair) for pair in wins.values()),
            len(wins),
            self.comparisons.get(method),
        )


def is_ours(method: str) -> bool:
    """Return whether a method is this package's estimator, whatever its arguments."""
    return method.startswith(("sswim", "neighbours")) and not method.endswith("-paper")


def summarise(rows: Iterable[Row]) -> Summary:
    """Summarise results; if a fit occurs twice, the later row counts."""
    groups = group_rows(rows)
    sets = _ordered({name for name, _ in groups}, list(DATA_SETS))
    methods = _ordered({method for _, method in groups}, list(METHODS))
    cells, scores = [], []
    for name in sets:
        tried = {method: groups[name, method] for method in methods if (name, method) in groups}
        failures = {method: count_failures(some) for method, some in tried.items()}
        for metric, column in metric_columns(name):
            means = _means(tried, column)
            cells.append(Cell(name, metric, means, failures, best_published(name, metric)))
        if crps := _means(tried, "crps_original" if name in ORIGINAL_SCALE else "crps"):
            # A method without a CRPS has failed only if it has no error either.
            failed = {m: n for m, n in failures.items() if m in crps or n == len(tried[m])}
            cells.append(Cell(name, "CRPS", crps, failed, None))
        columns = ("rmse", "mnlp", "crps", "coverage_90")
        scores.append(SetScores(name, *(_values(_means(tried, column)) for column in columns)))
    peers = [method for method in methods if not is_ours(method)]
    comparisons = {method: compare(method, peers, scores) for method in methods if is_ours(method)}
    return Summary(tuple(methods), tuple(cells), comparisons)


def _means(groups: Mapping[str, Iterable[Row]], column: str) -> dict[str, Mean]:
    """Return the means of a column by method, for methods that have one."""
    means = {method: mean_score(rows, column) for method, rows in groups.items()}
    return {method: mean for method, mean in means.items() if mean is not None}


def _values(means: Mapping[str, Mean]) -> dict[str, float]:
    return {method: mean.value for method, mean in means.items()}


def group_rows(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """Group rows by data set and method; if a fit occurs twice, keep the later row."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in {row.job: row for row in rows}.values():
        groups[row.set, row.method].append(row)
    return dict(groups)


def mean_score(rows: Iterable[Row], column: str) -> Mean | None:
    """Return the mean of a column over the fits that did not fail.

    None if all failed, or if some fits have no such score because an older version made them.
    """
    values = [getattr(row, column) for row in rows if not row.failure]
    if not values or any(map(math.isnan, values)):
        return None
    return Mean(fmean(values), stdev(values) if len(values) > 1 else math.nan, len(values))


def count_failures(rows: Iterable[Row]) -> int:
    """Return the number of failed fits."""
    return sum(bool(row.failure) for row in rows)


def best_methods(means: Mapping[str, float]) -> frozenset[str]:
    """Return the methods with the smallest mean."""
    smallest = min(means.values(), default=math.nan)
    return frozenset(method for method, value in means.items() if value == smallest)


def metric_columns(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the two metrics of a data set, each with the column of the results that holds it."""
    if name in ORIGINAL_SCALE:
        return ("MSE", "mse_original"), ("MNLP", "mnlp_original")
    return ("RMSE", "rmse"), ("MNLP", "mnlp")


def _ordered(names: set[str], known: Sequence[str]) -> list[str]:
    """Sort names: first in the order of the known ones, then others alphabetically."""
    return [*(name for name in known if name in names), *sorted(names - set(known))]
