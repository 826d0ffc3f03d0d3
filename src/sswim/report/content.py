"""The content that all parts of a report share: the model, rows, scores, and numbers to draw.

Inputs at which a report evaluates a model: grids over columns of numbers.

The members of a fitted ensemble with the kinds that they belong to.

What a report asks a model about its columns: which matter, and how.

Numbers as the text of a report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64

from sswim.estimator.evaluation import RowScores, ScoreInterval
from sswim.estimator.permutation import ColumnImportance
from sswim.estimator.regressor import SSWIMRegressor
from sswim.insight.effect import Effect
from sswim.insight.relevance import Relevance
from sswim.plotting.charts import Points, SharedArrays
from sswim.report.rows import ReportColumn, ReportRows
from sswim.rows.summary import smallest_keys


def column_grid(values: Float64[np.ndarray, " N"], n_points: int) -> Float64[np.ndarray, " n"]:
    """Return evenly spaced points over the range of numbers; a constant has a range around it."""
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return np.linspace(low, high, n_points)


def predict_frame(rows: ReportRows, values: Sequence[Float64[np.ndarray, " n"]]) -> Any:
    """Return values of all columns of numbers in the form in which the model reads rows."""
    if isinstance(rows.inputs, pa.Table):
        names = [column.name for column in rows.columns]
        return pa.table(dict(zip(names, values, strict=True)))
    return np.column_stack(values)


@dataclass(frozen=True)
class MemberKind:
    """Where a member belongs."""

    name: str
    """Name of its kind."""
    colour: int
    """Colour of its kind in charts, from 1 on."""


def member_kinds(regressor: SSWIMRegressor) -> list[MemberKind]:
    """Return the kind of each member, in the order of ``members_``.

    Members stand in the order of their kinds; kinds of no weight have none.
    """
    kept = [kind for kind in regressor.recipe_ if kind.weight > 0]
    found = [
        MemberKind(kind.name, 1 + place % 6)
        for place, kind in enumerate(kept)
        for _ in range(kind.n_members)
    ]
    n_members = len(regressor.members_)
    return found if len(found) == n_members else [MemberKind("member", 1)] * n_members


MAX_EFFECTS = 9
"""Largest number of columns whose effects are drawn."""

EFFECT_ROWS = 40
"""Number of rows that an effect is averaged over."""

EFFECT_POINTS = 16
"""Number of values of a column at which its effect is computed."""

N_REPEATS = 2
"""Number of times that each column is shuffled."""

MAX_SHUFFLED = 10_000
"""Largest number of predictions of rows with a shuffled column, if there are few columns."""


@dataclass(frozen=True)
class Insight:
    """Which columns matter to a model, and how."""

    importance: tuple[ColumnImportance, ...]
    """Rises of scores when a column is shuffled, the largest first."""
    n_shuffled: int
    """Number of rows that were shuffled."""
    relevance: Relevance
    effects: tuple[Effect, ...]
    """Effects of the most important columns."""


def shuffled_rows(rows: ReportRows) -> int:
    """Return how many rows are shuffled: fewer if there are many columns."""
    most = MAX_SHUFFLED // (N_REPEATS * max(1, len(rows.columns)))
    return min(len(rows), max(60, min(1000, most)))


def insight_cost(rows: ReportRows) -> int:
    """Return about how many rows are predicted."""
    n_columns = len(rows.columns)
    effects = min(MAX_EFFECTS, n_columns) * EFFECT_POINTS * EFFECT_ROWS
    return N_REPEATS * n_columns * shuffled_rows(rows) + effects


def find_insight(
    regressor: SSWIMRegressor,
    rows: ReportRows,
    random_state: int,
    advance: Callable[[int], object],
) -> Insight:
    """Ask a model which columns matter on rows with known targets, and how.

    Args:
        regressor: A fitted estimator of one target.
        rows: At least two rows.
        random_state: Seed of the samples of rows and of the shuffles.
        advance: Called with the number of rows that were predicted since its last call.
    """
    size = shuffled_rows(rows)
    chosen = smallest_keys(np.arange(len(rows)), size, random_state)
    inputs: Any = rows.inputs
    shuffled = inputs[chosen] if isinstance(inputs, np.ndarray) else inputs.take(chosen)
    importance = regressor.permutation_importance(
        shuffled, rows.targets[chosen], n_repeats=N_REPEATS, random_state=random_state
    )
    advance(N_REPEATS * len(rows.columns) * size)
    relevance = regressor.relevance(inputs)
    effects = []
    for name in _effect_names([column.name for column in importance.columns], relevance):
        which = relevance.names.index(name) if isinstance(inputs, np.ndarray) else name
        effects.append(regressor.effect(which, inputs, grid=EFFECT_POINTS, max_rows=EFFECT_ROWS))
        advance(EFFECT_POINTS * EFFECT_ROWS)
    return Insight(importance.columns, size, relevance, tuple(effects))


def _effect_names(names: list[str], relevance: Relevance) -> list[str]:
    """Return the columns whose effects are drawn, the most important first.

    Longitude and latitude have no effects of their own: they are one point on the sphere.
    """
    return [name for name in names if name in relevance.names][:MAX_EFFECTS]


def number(value: float, digits: int = 3) -> str:
    """Return a number with a few significant digits, or a dash if it is none."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size and (size >= 1e7 or size < 1e-4):
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        decimals = max(0, digits - 1 - math.floor(math.log10(size))) if size else 0
        text = f"{value:,.{decimals}f}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share in percent."""
    return f"{100 * share:.1f}\u00a0%" if math.isfinite(share) else "–"


def interval(found: ScoreInterval) -> str:
    """Return the ends of an interval as text."""
    return f"{number(found.lower)} to {number(found.upper)}"


def percent_interval(found: ScoreInterval) -> str:
    """Return the ends of an interval of shares as text."""
    return f"{100 * found.lower:.1f} to {100 * found.upper:.1f}\u00a0%"


def count(n: int, noun: str) -> str:
    """Return a number of things, such as "1,200 rows"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


MAX_POINTS = 2000
"""Largest number of rows that are drawn as points."""

MAX_VALUES = 40_000
"""Largest number of values of columns in the page; many columns are drawn with fewer rows."""

MAX_COLUMNS = 40
"""Largest number of columns that are drawn."""

MAX_BINS = 12
"""Largest number of groups of rows whose means are drawn."""

N_SURPRISES = 30
"""Number of rows in the table of those that surprise most; they are always drawn."""


@dataclass(frozen=True)
class Content:
    """A model, rows with their scores, and the rows that are drawn."""

    regressor: SSWIMRegressor
    rows: ReportRows
    scores: RowScores
    insight: Insight | None
    """Which columns matter, where that can be asked."""
    random_state: int
    """Seed of the sample and of the intervals of scores."""

    @cached_property
    def columns(self) -> tuple[ReportColumn, ...]:
        """The columns that are drawn, the most important first."""
        columns = self.rows.columns
        if self.insight is not None:
            # Columns stand in the order of the model; a name is that of its importance.
            names = [column.name for column in self.insight.importance]
            columns = tuple(sorted(columns, key=lambda column: names.index(column.name)))
        return columns[:MAX_COLUMNS]

    @cached_property
    def surprises(self) -> Int64[np.ndarray, " n"]:
        """Places of the rows that surprise most: the lowest log density first."""
        return np.argsort(self.scores.log_density, kind="stable")[:N_SURPRISES]

    @cached_property
    def drawn(self) -> Int64[np.ndarray, " n"]:
        """Places of the rows that are drawn: a random sample, and those that surprise most."""
        size = min(MAX_POINTS, max(200, MAX_VALUES // max(1, len(self.columns))))
        chosen = smallest_keys(np.arange(len(self.rows)), size, self.random_state)
        return np.union1d(chosen, self.surprises)

    def shared(self) -> SharedArrays:
        """Return the numbers of the drawn rows that several charts use."""
        scores, drawn = self.scores, self.drawn
        arrays = {
            "row": self.rows.numbers[drawn],
            "target": scores.target[drawn],
            "mean": scores.mean[drawn],
            "lower": scores.lower[drawn],
            "upper": scores.upper[drawn],
            "residual": scores.residual[drawn],
            "noise": scores.noise[drawn],
        }
        columns = {f"c{place}": each.places(drawn) for place, each in enumerate(self.columns)}
        return SharedArrays(arrays | columns)

    def points(self, x: str, y: str, *, name: str = "rows", colour: int = 1) -> Points:
        """Return the drawn rows as points of shared arrays."""
        return Points(x, y, name, colour, numbers="row")


def bin_means(
    x: Float64[np.ndarray, " N"], y: Float64[np.ndarray, " N"]
) -> tuple[Float64[np.ndarray, " B"], Float64[np.ndarray, " B"], Float64[np.ndarray, " B"]]:
    """Return mean x, mean y and the standard error of the latter, in bins of about equal counts.

    Rows whose x is missing are left out, and bins of fewer than three rows.
    """
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    n_bins = int(np.clip(len(x) // 10, 1, MAX_BINS))
    inner = np.unique(np.quantile(x, np.linspace(0, 1, n_bins + 1)[1:-1])) if x.size else x
    return _group_means(np.searchsorted(inner, x, side="left"), x, y)


def level_means(
    places: Float64[np.ndarray, " N"], y: Float64[np.ndarray, " N"]
) -> tuple[Float64[np.ndarray, " B"], Float64[np.ndarray, " B"], Float64[np.ndarray, " B"]]:
    """Return the place of each level, mean y there and its standard error."""
    return _group_means(places.astype(np.int64), places, y)


def _group_means(
    groups: Int64[np.ndarray, " N"], x: Float64[np.ndarray, " N"], y: Float64[np.ndarray, " N"]
) -> tuple[Float64[np.ndarray, " B"], Float64[np.ndarray, " B"], Float64[np.ndarray, " B"]]:
    found = []
    for group in np.unique(groups):
        inside = groups == group
        count = int(inside.sum())
        if count >= 3:
            error = y[inside].std(ddof=1) / np.sqrt(count)
            found.append((x[inside].mean(), y[inside].mean(), error))
    means = np.array(found, dtype=np.float64).reshape(-1, 3)
    return means[:, 0], means[:, 1], means[:, 2]
