"""Levels: the distinct values of a category, as text, and what the targets are in each."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64, Int64

from sswim.rows.summary import sample_keys
from sswim.tables.arrow_types import quote_names, require_kind, without_string_view

N_FOLDS = 5
"""Number of folds of rows that leave each other out when levels are encoded by their targets."""

MAX_DISTINCT = 200_000
"""Number of distinct texts above which a column is not collected any further."""


class UnknownCategoryWarning(UserWarning):
    """A level that the model has not learnt."""


def as_levels(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column as text, null where they are missing.

    A whole number has the same text whatever its type.
    """
    values = values.cast(without_string_view(values.type))
    dtype = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    values = values.cast(pa.float32() if pa.types.is_float16(dtype) else dtype)
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
        whole = pc.equal(pc.floor(values), values)
        small = pc.less(pc.abs(values), 2.0**53)
        if pc.all(pc.and_(whole, small)).as_py():
            values = values.cast(pa.int64())
    return values.cast(pa.large_string())


def level_codes(
    name: str, values: pa.ChunkedArray, levels: tuple[str, ...], *, warn: bool
) -> tuple[Int64[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """Return the number of each value's level, −1 if there is none, and whether it is missing.

    Args:
        name: Name of the column.
        values: Values of the column.
        levels: The levels, in order.
        warn: Whether to warn of levels that are not among them.
    """
    require_kind(name, values.type, "category")
    texts = as_levels(values)
    found = pc.index_in(texts, value_set=_as_array(levels))
    missing = texts.is_null().to_numpy()
    codes = np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)
    unknown = (codes < 0) & ~missing
    if warn and unknown.any():
        some = texts.filter(pa.array(unknown)).unique().to_pylist()
        warnings.warn(
            f"Column {name!r} has levels that the model has not learnt in {unknown.sum()} rows: "
            f"{quote_names(some)}. They count as missing there.",
            UnknownCategoryWarning,
            stacklevel=4,
        )
    return codes, missing


@lru_cache(maxsize=64)
def _as_array(levels: tuple[str, ...]) -> pa.Array:
    """Return levels as an Arrow array, once for all predictions of single rows."""
    return pa.array(levels, pa.large_string())


def fold_numbers(numbers: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """Return the fold of each row, which depends on its number alone."""
    return (sample_keys(numbers) % np.uint64(N_FOLDS)).astype(np.int64)


@dataclass
class LevelSums:
    """Weights of levels and sums of their targets, in each fold; collected chunk by chunk."""

    index: dict[str | None, int] = field(default_factory=dict)
    """The number of each level, in the order of their appearance; None is a missing value."""
    sums: Float64[np.ndarray, "L K S"] | None = None
    """Sum of weights, then sums of weighted targets, for each level and fold."""
    counts: Int64[np.ndarray, " L"] | None = None
    """Number of rows of each level."""

    @property
    def overflows(self) -> bool:
        """Whether there are too many levels to collect."""
        return len(self.index) > MAX_DISTINCT

    def add(
        self,
        levels: pa.ChunkedArray,
        folds: Int64[np.ndarray, " n"],
        targets: Float64[np.ndarray, "n T"],
        weight: Float64[np.ndarray, " n"] | None,
    ) -> None:
        """Add the rows of a chunk."""
        if self.overflows or not len(folds):
            return
        encoded = levels.combine_chunks().dictionary_encode(null_encoding="encode")
        texts = encoded.dictionary.to_pylist()
        codes = encoded.indices.to_numpy().astype(np.int64) * N_FOLDS + folds
        n_cells = len(texts) * N_FOLDS
        once = np.ones(len(folds)) if weight is None else weight
        columns = [once, *(once * column for column in targets.T)]
        found = [np.bincount(codes, column, n_cells) for column in columns]
        sums = np.stack(found, axis=1).reshape(len(texts), N_FOLDS, len(columns))
        counts = np.bincount(encoded.indices.to_numpy(), minlength=len(texts))
        self._merge(texts, sums, counts)

    def merge(self, other: LevelSums) -> None:
        """Add the rows of another collection."""
        if other.sums is not None and other.counts is not None:
            self._merge([*other.index], other.sums, other.counts)

    def _merge(
        self,
        levels: list[str | None],
        sums: Float64[np.ndarray, "l K S"],
        counts: Int64[np.ndarray, " l"],
    ) -> None:
        where = np.array([self.index.setdefault(level, len(self.index)) for level in levels])
        n_new = len(self.index) - (0 if self.counts is None else len(self.counts))
        new_sums, new_counts = np.zeros((n_new, *sums.shape[1:])), np.zeros(n_new, dtype=np.int64)
        if self.sums is None or self.counts is None:
            self.sums, self.counts = new_sums, new_counts
        elif n_new:
            self.sums = np.concatenate((self.sums, new_sums))
            self.counts = np.concatenate((self.counts, new_counts))
        self.sums[where] += sums
        self.counts[where] += counts

    def sorted_levels(self) -> list[str]:
        """Return the levels in order, without the missing value."""
        return sorted(level for level in self.index if level is not None)

    def count(self, level: str | None) -> int:
        """Return the number of rows of a level."""
        if self.counts is None or level not in self.index:
            return 0
        return int(self.counts[self.index[level]])
