"""Results in short: means over repeats, beside the best published, and who wins where."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from sswim.lab.bench.accuracy import Row
from sswim.lab.bench.methods import METHODS
from sswim.lab.bench.published import Published, best_published
from sswim.lab.datasets.named import DATA_SETS

ORIGINAL_SCALE = ("abalone", "creep", "ailerons")
"""Sets whose scores are published on the scale of the target; the others' are standardised."""


@dataclass(frozen=True)
class Mean:
    """A mean over the repeats that worked."""

    value: float
    std: float
    """Over the repeats; not a number if there is one."""
    n: int

    @property
    def error(self) -> float:
        """Its standard error."""
        return self.std / math.sqrt(self.n)


@dataclass(frozen=True)
class Cell:
    """A metric on a data set: what every method reaches."""

    set: str
    metric: str
    means: dict[str, Mean]
    """Of the methods of which a repeat worked."""
    failures: dict[str, int]
    """Repeats that failed, of every method that was tried."""
    published: Published | None

    @property
    def best(self) -> frozenset[str]:
        """The methods that nobody here beats."""
        smallest = min((mean.value for mean in self.means.values()), default=math.nan)
        return frozenset(name for name, mean in self.means.items() if mean.value == smallest)


@dataclass(frozen=True)
class ScoreSums:
    """Where a method of this package wins."""

    method: str
    reached: int
    """Cells in which it is at least as good as the best published."""
    n_cells: int
    errors: int
    """Sets on which its error is smaller than that of every other method here."""
    densities: int
    """The same of its MNLP."""
    both: int
    n_sets: int
    """Sets with another method to compare with."""


@dataclass(frozen=True)
class Summary:
    """A table of results: two cells for each data set, error and MNLP in turn."""

    methods: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def tallies(self) -> tuple[ScoreSums, ...]:
        """Of every method of this package."""
        return tuple(self._tally(name) for name in self.methods if is_ours(name))

    def _tally(self, method: str) -> ScoreSums:
        cells = [cell for cell in self.cells if method in cell.means]
        compared = [
            cell.means[method].value <= cell.published.value for cell in cells if cell.published
        ]
        wins: dict[str, list[bool]] = {}
        for cell in cells:
            others = [mean.value for name, mean in cell.means.items() if not is_ours(name)]
            if others:
                wins.setdefault(cell.set, []).append(cell.means[method].value < min(others))
        return ScoreSums(
            method,
            sum(compared),
            len(compared),
            sum(error for error, _ in wins.values()),
            sum(density for _, density in wins.values()),
            sum(all(pair) for pair in wins.values()),
            len(wins),
        )


def is_ours(method: str) -> bool:
    """Whether a method is this package's, as it is or varied; what was published is not."""
    return method.startswith("sswim") and not method.endswith("-paper")


def summarise(rows: Iterable[Row]) -> Summary:
    """Means of what is there; of a fit that is there twice, the later counts."""
    groups = group(rows)
    sets = _ordered({name for name, _ in groups}, list(DATA_SETS))
    methods = _ordered({method for _, method in groups}, list(METHODS))
    cells = []
    for name in sets:
        tried = {method: groups[name, method] for method in methods if (name, method) in groups}
        failures = {method: count_failures(some) for method, some in tried.items()}
        for metric, column in columns(name):
            means = {method: mean_of(some, column) for method, some in tried.items()}
            worked = {method: mean for method, mean in means.items() if mean is not None}
            cells.append(Cell(name, metric, worked, failures, best_published(name, metric)))
    return Summary(tuple(methods), tuple(cells))


def group(rows: Iterable[Row]) -> dict[tuple[str, str], list[Row]]:
    """The rows of every set and method; of a fit that is there twice, the later."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in {row.job: row for row in rows}.values():
        groups[row.set, row.method].append(row)
    return dict(groups)


def mean_of(rows: Iterable[Row], column: str) -> Mean | None:
    """Over the fits that worked, if there are any."""
    values = [getattr(row, column) for row in rows if not row.failure]
    if not values:
        return None
    return Mean(fmean(values), stdev(values) if len(values) > 1 else math.nan, len(values))


def count_failures(rows: Iterable[Row]) -> int:
    """How many fits failed."""
    return sum(bool(row.failure) for row in rows)


def columns(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """The two metrics of a data set, and the columns of the results that hold them."""
    if name in ORIGINAL_SCALE:
        return ("MSE", "mse_original"), ("MNLP", "mnlp_original")
    return ("RMSE", "rmse"), ("MNLP", "mnlp")


def _ordered(names: set[str], known: Sequence[str]) -> list[str]:
    """In the order of those that are known, and the others after them."""
    return [*(name for name in known if name in names), *sorted(names - set(known))]
