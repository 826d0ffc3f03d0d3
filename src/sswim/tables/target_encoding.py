"""Categories of several levels, which become the mean target of their level, and indicators.

A level's mean is drawn to the mean of all rows by as many rows as the spread between levels and
the noise within them suggest (the estimate of a random effect). A row's own target must not be part
of its input: in training each row has the means of the other folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import ClassVar

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64

from sswim.rows.scaling import Moments
from sswim.tables.columns import CategoryColumn
from sswim.tables.levels import N_FOLDS, LevelSums, level_codes

MOST_ROWS = 1e6
"""Largest number of rows that the mean of all rows counts for."""

_ROUNDING = 1e-14
"""Part of the size of targets below which their differences are rounding."""


@dataclass(frozen=True)
class LevelMeansColumn:
    """A category, which becomes the mean target of its level and indicators of common levels.

    The mean tells levels apart that are too rare for an indicator, and which levels are alike. A
    missing or unknown level has the mean of all rows; a missing one has its own mean if there were
    missing values in ``fit``.
    """

    kind: ClassVar[str] = "levels"
    name: str
    levels: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    """Mean targets of each level."""
    other: tuple[float, ...]
    """Mean targets of all rows."""
    missing: tuple[float, ...]
    """Mean targets of the rows whose level is missing, or of all rows if there were none."""
    shown: CategoryColumn | None = None
    """The indicators of common levels; None if there are none."""

    @property
    def has_missing(self) -> bool:
        """Whether the last input says that the value is missing."""
        return self.shown is not None and self.shown.has_missing

    @property
    def inputs(self) -> list[str]:
        """Names of the means and of the indicators."""
        numbers = [f" {number}" for number in range(len(self.other))]
        means = [f"{self.name} mean{number}" for number in (numbers if numbers[1:] else [""])]
        return means if self.shown is None else [*means, *self.shown.inputs]

    @cached_property
    def _table(self) -> Float64[np.ndarray, "L T"]:
        """Means of all levels, then of missing and of unknown ones."""
        return np.array([*self.means, self.missing, self.other])

    def encode(
        self,
        values: pa.ChunkedArray,
        fold_means: FoldMeans | None = None,
        folds: Int64[np.ndarray, " N"] | None = None,
    ) -> Float64[np.ndarray, "N d"]:
        """Return the mean targets of levels, and the indicators.

        Args:
            values: Values of the column.
            fold_means: Means without the rows of each fold, for rows of training.
            folds: The fold of each row of training.
        """
        rows = self._rows_of(values)
        if fold_means is None or folds is None:
            means = self._table[rows]
        else:
            means = fold_means.take(rows, folds)
        return means if self.shown is None else np.hstack((means, self.shown.encode(values)))

    def _rows_of(self, values: pa.ChunkedArray) -> Int64[np.ndarray, " N"]:
        """Return the number of each value's level; missing and unknown ones follow the levels."""
        codes, missing = level_codes(self.name, values, self.levels, warn=False)
        n_levels = len(self.levels)
        return np.where(codes >= 0, codes, np.where(missing, n_levels, n_levels + 1))


@dataclass(frozen=True)
class FoldMeans:
    """The mean targets of levels without the rows of each fold."""

    means: Float64[np.ndarray, "L K T"]
    """For each level, then for missing and unknown ones."""

    def take(
        self, rows: Int64[np.ndarray, " N"], folds: Int64[np.ndarray, " N"]
    ) -> Float64[np.ndarray, "N T"]:
        """Return the means of rows by their level, without their own fold."""
        return self.means[rows, folds]


def encode_levels(
    name: str, found: LevelSums, targets: Sequence[Moments], shown: CategoryColumn | None = None
) -> tuple[LevelMeansColumn, FoldMeans]:
    """Make a column of mean targets.

    Args:
        name: Name of the column.
        found: Levels and the sums of their targets.
        targets: Moments of the targets of each fold.
        shown: The indicators of common levels.
    """
    assert found.sums is not None
    levels = found.sorted_levels()
    order = [found.index[level] for level in levels]
    nothing = np.zeros((1, *found.sums.shape[1:]))
    of_missing = found.sums[[found.index[None]]] if None in found.index else nothing
    sums = np.concatenate((found.sums[order], of_missing, nothing))
    means = _means_of(sums, targets)
    # Sums of the other folds, and not all sums less those of a fold, so that its targets are not
    # even in the rounding.
    others = [[other for other in range(N_FOLDS) if other != fold] for fold in range(N_FOLDS)]
    folds = [_means_of(sums[:, rest], [targets[fold] for fold in rest]) for rest in others]
    column = LevelMeansColumn(
        name,
        tuple(levels),
        tuple(map(tuple, means[:-2].tolist())),
        other=tuple(means[-1].tolist()),
        missing=tuple(means[-2].tolist()),
        shown=shown,
    )
    return column, FoldMeans(np.stack(folds, axis=1))


def _means_of(
    sums: Float64[np.ndarray, "L k S"], targets: Sequence[Moments]
) -> Float64[np.ndarray, "L T"]:
    """Return the mean targets of levels in some folds.

    Args:
        sums: Weight and sums of weighted targets of each level and fold.
        targets: Moments of the targets of each fold.
    """
    total = sums.sum(1)
    together = reduce(add, targets)
    spread = together.spread.numpy()
    # A power of two, so that squares are finite for targets of any unit and rounding is the same.
    # Means of targets that are all but constant differ by the rounding of their size.
    width = np.maximum(spread, _ROUNDING * together.unit.numpy())
    unit = np.exp2(np.rint(np.log2(np.where(width > 0, width, 1.0))))
    standard = np.concatenate((total[:, :1], total[:, 1:] / unit), axis=1)
    return _shrunk_means(total, total.sum(0), shrinkage_rows(standard, np.square(spread / unit)))


def shrinkage_rows(
    sums: Float64[np.ndarray, "L S"], variance: Float64[np.ndarray, " T"]
) -> Float64[np.ndarray, " T"]:
    """Return how many rows the mean of all rows counts for in the mean of a level.

    It is σ²/τ², the noise within levels over the variance between them, by the method of moments.

    Args:
        sums: Weight and sums of weighted targets of each level.
        variance: Variance of each target over all rows.
    """
    weight = sums[:, 0]
    used = weight > 0
    if not used.any():
        return np.full(variance.shape, MOST_ROWS)
    weight, n_levels, total = weight[used], int(used.sum()), weight.sum()
    means = sums[used, 1:] / weight[:, None]
    overall = sums[:, 1:].sum(0) / total
    between = (weight[:, None] * np.square(means - overall)).sum(0)
    within = np.maximum(total * variance - between, 0.0) / max(total - n_levels, 1.0)
    typical = (total - np.square(weight).sum() / total) / max(n_levels - 1, 1)
    spread = (between / max(n_levels - 1, 1) - within) / max(typical, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.where(spread > 0, within / spread, MOST_ROWS)
    return np.clip(rows, 1.0, MOST_ROWS)


def _shrunk_means(
    sums: Float64[np.ndarray, "L S"],
    total: Float64[np.ndarray, " S"],
    rows: Float64[np.ndarray, " T"],
) -> Float64[np.ndarray, "L T"]:
    """Return the means of levels, drawn to the mean of all by so many rows."""
    overall = total[1:] / max(total[0], 1e-300)
    return (sums[:, 1:] + rows * overall) / (sums[:, :1] + rows)
