"""What all parts of a report share: the model, the rows with their scores, and what is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64

from sswim.estimator.base import BaseRegressor
from sswim.estimator.evaluation import ColumnImportance, RowScores
from sswim.insight.effect import Effect
from sswim.insight.relevance import Relevance
from sswim.report.charts import Layer, json_script, layer
from sswim.report.page import Html
from sswim.report.rows import ReportColumn, ReportRows, warned_values
from sswim.rows.summary import smallest_keys

MAX_POINTS = 2000
"""Largest number of rows that are drawn as points."""

MAX_VALUES = 40_000
"""Largest number of values of columns in the page; many columns are drawn with fewer rows."""

MAX_COLUMNS = 40
"""Largest number of columns that are drawn."""

N_SURPRISES = 30
"""Number of rows in the table of those that surprise most; they are always drawn."""

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
class Content:
    """A model, rows with their scores, and the rows that are drawn."""

    regressor: BaseRegressor
    rows: ReportRows
    scores: RowScores
    insight: Insight | None
    """Which columns matter, if there are several."""
    random_state: int
    """Seed of the sample and of the intervals of scores."""

    @cached_property
    def columns(self) -> tuple[ReportColumn, ...]:
        """The columns that are drawn, the most important first."""
        columns = self.rows.columns
        if self.insight is not None:
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
        return np.union1d(self.sample(size), self.surprises)

    def sample(self, size: int) -> Int64[np.ndarray, " n"]:
        """Return the places of some rows, drawn at random."""
        return smallest_keys(np.arange(len(self.rows)), size, self.random_state)

    def shared(self) -> Html:
        """Return the numbers of the drawn rows that several charts use."""
        drawn = self.drawn
        names = ("target", "mean", "lower", "upper", "residual", "noise")
        scores = {name: getattr(self.scores, name)[drawn] for name in names}
        columns = {f"c{place}": column.places(drawn) for place, column in enumerate(self.columns)}
        return json_script({"row": self.rows.numbers[drawn]} | scores | columns, "shared")

    def points(self, x: str, y: str, *, colour: int = 1) -> Layer:
        """Return the drawn rows as points of shared arrays."""
        return layer("points", "rows", colour, x=x, y=y, numbers="row")

    def on_grid(self, values: Sequence[Float64[np.ndarray, " n"]]) -> Any:
        """Return values of all columns of numbers in the form in which the model reads rows."""
        if isinstance(self.rows.given, pa.Table):
            names = [column.name for column in self.rows.columns]
            return pa.table(dict(zip(names, values, strict=True)))
        return np.column_stack(values)


def column_grid(values: Float64[np.ndarray, " N"], n_points: int) -> Float64[np.ndarray, " n"]:
    """Return evenly spaced points over the range of numbers; a constant has a range around it."""
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return np.linspace(low, high, n_points)


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


def insight_cost(rows: ReportRows) -> int:
    """Return about how many rows are predicted for an insight."""
    n_columns = len(rows.columns)
    effects = min(MAX_EFFECTS, n_columns) * EFFECT_POINTS * EFFECT_ROWS
    return N_REPEATS * n_columns * _n_shuffled(rows) + effects


def find_insight(
    regressor: BaseRegressor,
    rows: ReportRows,
    random_state: int,
    advance: Callable[[int], object],
) -> Insight:
    """Ask a model which columns matter on rows with known targets, and how.

    Longitude and latitude have no effects of their own: they are one point on the sphere.

    Args:
        regressor: A fitted estimator of one target.
        rows: At least two rows.
        random_state: Seed of the samples of rows and of the shuffles.
        advance: Called with the number of rows that were predicted since its last call.
    """
    size = _n_shuffled(rows)
    chosen = smallest_keys(np.arange(len(rows)), size, random_state)
    is_array = isinstance(rows.given, np.ndarray)
    shuffled = rows.given[chosen] if is_array else rows.given.take(chosen)
    with warned_values():
        importance = regressor.permutation_importance(
            shuffled, rows.targets[chosen], n_repeats=N_REPEATS, random_state=random_state
        )
    advance(N_REPEATS * len(rows.columns) * size)
    relevance = regressor.relevance(rows.inputs)
    names = [column.name for column in importance.columns if column.name in relevance.names]
    effects = []
    for name in names[:MAX_EFFECTS]:
        column = relevance.names.index(name) if is_array else name
        effects.append(
            regressor.effect(column, rows.inputs, grid=EFFECT_POINTS, max_rows=EFFECT_ROWS)
        )
        advance(EFFECT_POINTS * EFFECT_ROWS)
    return Insight(importance.columns, size, relevance, tuple(effects))


def _n_shuffled(rows: ReportRows) -> int:
    """Return how many rows are shuffled: fewer if there are many columns."""
    most = MAX_SHUFFLED // (N_REPEATS * max(1, len(rows.columns)))
    return min(len(rows), max(60, min(1000, most)))


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


def count(n: int, noun: str) -> str:
    """Return a number of things, such as "1,200 rows"."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
