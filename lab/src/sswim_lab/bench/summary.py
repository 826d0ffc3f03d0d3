"""Summary of results: means over repeats, published scores, and a comparison with all peers.

The published scores are those of Tompkins, Oliveira and Ramos (NeurIPS 2020).
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import fmean, stdev

from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.methods import METHODS
from sswim_lab.datasets import DATA_SETS

LABELS = {
    "sswim1-paper": "SSWIM1",
    "sswim2-paper": "SSWIM2",
    "dsdgp": "DSDGP",
    "dkl": "DKL",
    "rffns": "RFFNS",
    "svgp": "SVGP",
    "sgpr": "SGPR",
    "rffs": "RFFS",
    "gp": "GP",
    "bwgp": "BWGP",
    "mlwgp3": "MLWGP3",
    "mlwgp20": "MLWGP20",
}
"""The paper's names of methods of the benchmark."""


@dataclass(frozen=True)
class Published:
    """A published score: the mean over repeats of RMSE, MSE or MNLP."""

    set: str
    method: str
    metric: str
    value: float
    std: float
    """Standard deviation over the repeats."""


@cache
def published() -> tuple[Published, ...]:
    """Return all published scores."""
    text = (files("sswim_lab.bench") / "published.csv").read_text(encoding="utf-8")
    return tuple(
        Published(line["set"], line["method"], line["metric"], *map(float, numbers))
        for line in csv.DictReader(text.splitlines())
        for numbers in [(line["value"], line["std"])]
    )


def published_score(name: str, label: str, metric: str) -> Published | None:
    """Return a published score by data set, the paper's name of the method and metric, or None."""
    return _scores().get((name, label, metric))


def best_published(name: str, metric: str) -> Published | None:
    """Return the best published score of a data set, the first of equally good ones."""
    scores = [score for score in published() if (score.set, score.metric) == (name, metric)]
    return min(scores, key=lambda score: score.value, default=None)


@cache
def _scores() -> dict[tuple[str, str, str], Published]:
    return {(score.set, score.method, score.metric): score for score in published()}


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


NEAR = 0.01
"""Relative difference to the best RMSE up to which an RMSE counts as near."""
GOOD_COVERAGE = (0.87, 0.93)
"""Smallest and largest fraction of targets in 90 % intervals that counts as good."""


@dataclass(frozen=True)
class SetScores:
    """Scores on one data set, each by method."""

    set: str
    rmse: Mapping[str, float]
    mnlp: Mapping[str, float]
    crps: Mapping[str, float]
    coverage: Mapping[str, float]
    """Fraction of targets in 90 % intervals."""


@dataclass(frozen=True)
class Comparison:
    """Numbers of data sets on which a method is better than its peers, or as good."""

    near: int
    """Number of data sets on which the RMSE is at most ``NEAR`` above that of the best peer."""
    mnlp: int
    """Number of data sets on which the MNLP is smaller than that of every peer."""
    crps: int
    """Number of data sets on which the CRPS is smaller than that of every peer."""
    covered: int
    """Number of data sets on which the 90 % intervals have a ``GOOD_COVERAGE``."""
    n_sets: int
    """Number of data sets with a CRPS of the method and of a peer."""
    gap: float
    """Largest relative difference to the RMSE of the best peer, zero if no peer is better."""
    gap_set: str
    """Data set with that difference; empty if no peer is better."""


def compare(method: str, peers: Collection[str], sets: Iterable[SetScores]) -> Comparison | None:
    """Compare a method with its peers on the data sets on which both have a CRPS, if any."""

    def best_peer(scores: Mapping[str, float]) -> float:
        return min(value for name, value in scores.items() if name in peers)

    compared = [
        scores
        for scores in sets
        if method in scores.crps and not scores.crps.keys().isdisjoint(peers)
    ]
    if not compared:
        return None
    gaps = {scores.set: scores.rmse[method] / best_peer(scores.rmse) - 1 for scores in compared}
    worst = max(gaps, key=lambda name: gaps[name])
    low, high = GOOD_COVERAGE
    return Comparison(
        near=sum(gap <= NEAR for gap in gaps.values()),
        mnlp=sum(scores.mnlp[method] < best_peer(scores.mnlp) for scores in compared),
        crps=sum(scores.crps[method] < best_peer(scores.crps) for scores in compared),
        covered=sum(low <= scores.coverage[method] <= high for scores in compared),
        n_sets=len(compared),
        gap=max(gaps[worst], 0.0),
        gap_set=worst if gaps[worst] > 0 else "",
    )


def describe_comparison(found: Comparison) -> str:
    """Return a sentence about a comparison."""
    gap = f"{found.gap:.1%}".replace("%", " %")
    low, high = (f"{100 * value:.0f}" for value in GOOD_COVERAGE)
    return (
        f"Compared with every other method here on {found.n_sets} sets: RMSE best or within "
        f"{100 * NEAR:.0f} % of the best on {found.near}, MNLP best on {found.mnlp}, CRPS best on "
        f"{found.crps}, coverage of 90 % intervals between {low} and {high} % on {found.covered}; "
        f"largest gap to the best RMSE {gap}{f' ({found.gap_set})' if found.gap_set else ''}."
    )
