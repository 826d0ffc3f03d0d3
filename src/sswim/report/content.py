"""The content that all parts of a report share: the model, rows, scores, and numbers to draw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int64

from sswim.estimator.regressor import SSWIMRegressor
from sswim.estimator.row_scores import RowScores
from sswim.plotting.charts import Points, SharedArrays
from sswim.report.columns import ReportColumn
from sswim.report.insight import Insight
from sswim.report.rows import ReportRows
from sswim.rows.row_sample import smallest_keys

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
