"""What the texts of a column are: numbers, times, or levels with their mean targets.

Texts are collected chunk by chunk, in each process. A category of several levels becomes the mean
target of its level, and indicators of the common ones. A level's mean is drawn to the mean of all
rows by as many rows as the spread between levels and the noise within them suggest (the estimate of
a random effect). A row's own target must not be part of its input: in training each row has the
means of the other folds.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Int64

from sswim.rows.scaling import Moments
from sswim.rows.summary import sample_keys
from sswim.tables.columns import (
    CategoryColumn,
    Column,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    TimeColumn,
)
from sswim.tables.table import quote_names
from sswim.tables.values import NUMBER_FORMATS, TIME_FORMATS, as_levels

N_FOLDS = 5
"""Number of folds of rows that leave each other out when levels are encoded by their targets."""

MAX_DISTINCT = 200_000
"""Number of distinct texts above which a column is not collected any further."""


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
        totals = [np.bincount(codes, column, n_cells) for column in columns]
        sums = np.stack(totals, axis=1).reshape(len(texts), N_FOLDS, len(columns))
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


TELLING_ROWS = 20
"""Fewest rows without a value from which the model learns what a missing value means."""

TELLING_SHARE = 0.01
"""Smallest share of such rows."""


def is_telling(n_missing: int, n_rows: int) -> bool:
    """Return whether a column is so often missing that this becomes an input of its own.

    What few rows say of missing values does more harm than good (docs/tables.md).
    """
    return n_missing >= max(TELLING_ROWS, TELLING_SHARE * n_rows)


MAX_MARKERS = 5
"""Number of different texts that may stand among numbers for missing values."""

MAX_MARKED = 0.2
"""Largest share of such texts among the values of a column of numbers."""

MAX_INDICATORS = 50
"""Largest number of levels of a column that have an indicator: the most common ones."""

RARE_SHARE = 0.01
"""A level with a smaller share of the rows is rare, and has no indicator."""

RARE_ROWS = 10
"""So is a level with fewer rows, or with less than a tenth of all rows if that is less."""

MEAN_ROWS = 200
"""Number of rows from which a category of more than two levels also has its mean target."""

IDENTIFIER_ROWS = 20
"""Number of rows above which a text column without any repeated text is an identifier."""


@dataclass
class Misfits:
    """Texts that are not of a format."""

    n_rows: int = 0
    texts: set[str] = field(default_factory=set)
    """Some of the texts."""

    @property
    def are_many(self) -> bool:
        """Whether there are too many texts to stand for missing values."""
        return len(self.texts) > MAX_MARKERS

    def add(self, texts: list[str], n_rows: int) -> None:
        """Add texts that occur in so many rows."""
        self.n_rows += n_rows
        for text in texts:
            if not self.are_many:
                self.texts.add(text)


@dataclass
class TextFindings:
    """The levels of a column, and which formats of numbers and times its texts have."""

    is_plain: bool
    """Whether the texts may be numbers or times; else the user has called it a category."""
    levels: LevelSums = field(default_factory=LevelSums)
    n_texts: int = 0
    """Number of rows with a text."""
    n_missing: int = 0
    """Number of rows without one."""
    misfits: dict[str, Misfits] = field(
        default_factory=lambda: {name: Misfits() for name in (*NUMBER_FORMATS, *TIME_FORMATS)}
    )
    """Misfits of the formats that still are possible, and of the plainest one of numbers."""

    def add(
        self,
        values: pa.ChunkedArray,
        folds: Int64[np.ndarray, " n"],
        targets: Float64[np.ndarray, "n T"],
        weight: Float64[np.ndarray, " n"] | None,
    ) -> None:
        """Add the rows of a chunk."""
        texts = as_levels(values)
        self.levels.add(texts, folds, targets, weight)
        self.n_texts += len(texts) - texts.null_count
        self.n_missing += texts.null_count
        if self.is_plain:
            self._add_formats(texts)

    def _add_formats(self, texts: pa.ChunkedArray) -> None:
        encoded = texts.drop_null().combine_chunks().dictionary_encode()
        distinct = encoded.dictionary
        counts = np.bincount(encoded.indices.to_numpy(), minlength=len(distinct))
        for name, misfits in self.misfits.items():
            parsed = (NUMBER_FORMATS | TIME_FORMATS)[name].parse(distinct)
            bad = parsed.is_null().to_numpy(zero_copy_only=False)
            some = distinct.filter(pa.array(bad))[: MAX_MARKERS + 1].to_pylist()
            misfits.add(some, int(counts[bad].sum()))
        self._drop_formats()

    def _drop_formats(self) -> None:
        """Forget the formats that are not possible, except the plainest one of numbers."""
        possible = self.misfits.items()
        self.misfits = {name: some for name, some in possible if name == "." or not some.are_many}

    def merge(self, other: TextFindings) -> None:
        """Add what was found in other rows."""
        self.levels.merge(other.levels)
        self.n_texts += other.n_texts
        self.n_missing += other.n_missing
        self.misfits = {name: self.misfits[name] for name in self.misfits if name in other.misfits}
        for name, misfits in self.misfits.items():
            misfits.add(sorted(other.misfits[name].texts), other.misfits[name].n_rows)
        self._drop_formats()

    def learn(
        self, name: str, targets: Sequence[Moments]
    ) -> tuple[Column, Float64[np.ndarray, "L K T"] | None, list[str]]:
        """Return the column that the texts make, and notes for the user.

        Args:
            name: Name of the column.
            targets: Moments of the targets of each fold.
        """
        if not self.n_texts:
            reason = "it has no values"
            return IgnoredColumn(name, reason), None, [f"Column {name!r} is not used: {reason}."]
        if self.is_plain:
            parsed = self._as_numbers(name) or self._as_times(name)
            if parsed is not None:
                return parsed[0], None, parsed[1]
        return self._as_levels(name, targets)

    def _as_numbers(self, name: str) -> tuple[Column, list[str]] | None:
        best = self._best_formats(NUMBER_FORMATS)
        if not best:
            return None
        marks = best[0]
        others = self.misfits[marks]
        how = ""
        if marks != ".":
            thousands = f" and {marks[1]!r} between thousands" if marks[1:] else ""
            how = f", with {marks[0]!r} before fractions{thousands}"
        note = f"Column {name!r} is text, and all of it numbers: read as numbers{how}; "
        note = self._note_markers(name, others, "numbers", how) or note + _how_to_keep(name)
        markers = tuple(sorted(others.texts))
        has_missing = self._is_telling(others.n_rows)
        return NumberColumn(name, has_missing, marks, markers), [note]

    def _as_times(self, name: str) -> tuple[Column, list[str]] | None:
        best = self._best_formats(TIME_FORMATS)
        if not best:
            return None
        others = self.misfits[best[0]]
        note = self._note_markers(name, others, "dates or times")
        notes = [note] if note else []
        if len(best) > 1:  # all days are below 13
            notes.append(
                f"Column {name!r} has dates in which day and month cannot be told apart: read as "
                f"{best[0]}; write them as YYYY-MM-DD if that is wrong."
            )
        column = TimeColumn(
            name,
            self._is_telling(others.n_rows),
            zone="UTC" if best[0] == "ISO 8601 with offset" else "",
            text_format=best[0],
            markers=tuple(sorted(others.texts)),
        )
        return column, notes

    def _best_formats(self, formats: Collection[str]) -> list[str]:
        """Return the formats that most texts have, if few enough texts have another."""
        possible = {
            name: misfits.n_rows
            for name, misfits in self.misfits.items()
            if name in formats
            and not misfits.are_many
            and misfits.n_rows <= MAX_MARKED * self.n_texts
        }
        return [name for name, n_rows in possible.items() if n_rows == min(possible.values())]

    def _note_markers(self, name: str, others: Misfits, words: str, how: str = "") -> str:
        """Tell which texts stand for missing values, if there are any."""
        if not others.n_rows:
            return ""
        values = "1 other value" if others.n_rows == 1 else f"{others.n_rows} other values"
        return (
            f"Column {name!r} has {self.n_texts - others.n_rows} {words} and {values}, "
            f"{quote_names(sorted(others.texts))}: read as {words}{how}, with {others.n_rows} "
            f"missing; {_how_to_keep(name)}"
        )

    def _as_levels(
        self, name: str, targets: Sequence[Moments]
    ) -> tuple[Column, Float64[np.ndarray, "L K T"] | None, list[str]]:
        levels = self.levels.sorted_levels()
        reason = ""
        if self.levels.overflows:
            reason = f"it has more than {MAX_DISTINCT:,} different texts"
        elif len(levels) == self.n_texts > IDENTIFIER_ROWS:
            reason = "it has a different text in every row"
        if reason:
            return IgnoredColumn(name, reason), None, [f"Column {name!r} is not used: {reason}."]
        notes = self._note_numbers(name, len(levels))
        shown = self._indicators(name, levels)
        some_are_rare = shown is None or shown.has_other
        if some_are_rare or (len(levels) > 2 and self.n_texts >= MEAN_ROWS):
            column, fold_means = encode_levels(name, self.levels, targets, shown)
            return column, fold_means, notes
        assert shown is not None
        return shown, None, notes

    def _indicators(self, name: str, levels: list[str]) -> CategoryColumn | None:
        """Return the indicators of the levels that are common enough to have one."""
        fewest = max(RARE_SHARE * self.n_texts, min(RARE_ROWS, self.n_texts / 10))
        common = [level for level in levels if self.levels.count(level) >= fewest]
        common = sorted(sorted(common, key=self.levels.count, reverse=True)[:MAX_INDICATORS])
        if len(levels) - len(common) == 1 and len(levels) <= MAX_INDICATORS:
            common = levels  # a word for others would stand for one level
        if not common:
            return None
        has_other = len(common) < len(levels)
        return CategoryColumn(name, self._is_telling(), tuple(common), has_other)

    def _is_telling(self, n_others: int = 0) -> bool:
        """Return whether rows without a text, or with one of others, have an input of their own."""
        return is_telling(self.n_missing + n_others, self.n_missing + self.n_texts)

    def _note_numbers(self, name: str, n_levels: int) -> list[str]:
        """Tell that a column with many numbers is used as text."""
        others = self.misfits["."]
        n_numbers = self.n_texts - others.n_rows
        if not self.is_plain or n_numbers < 0.5 * self.n_texts:
            return []
        return [
            f"Column {name!r} has {n_numbers} numbers and {others.n_rows} other values, such as "
            f"{quote_names(sorted(others.texts))}: used as text of {n_levels} levels; correct "
            "these values if it should be numbers."
        ]


def _how_to_keep(name: str) -> str:
    return f"--text {shlex.quote(name)}, or the type category, keeps it as text."


MOST_ROWS = 1e6
"""Largest number of rows that the mean of all rows counts for."""

_ROUNDING = 1e-14
"""Part of the size of targets below which their differences are rounding."""


def encode_levels(
    name: str, collected: LevelSums, targets: Sequence[Moments], shown: CategoryColumn | None = None
) -> tuple[LevelMeansColumn, Float64[np.ndarray, "L K T"]]:
    """Make a column of mean targets; return also those without each fold, for rows of training.

    Args:
        name: Name of the column.
        collected: Levels and the sums of their targets.
        targets: Moments of the targets of each fold.
        shown: The indicators of common levels.
    """
    assert collected.sums is not None
    levels = collected.sorted_levels()
    order = [collected.index[level] for level in levels]
    nothing = np.zeros((1, *collected.sums.shape[1:]))
    of_missing = collected.sums[[collected.index[None]]] if None in collected.index else nothing
    sums = np.concatenate((collected.sums[order], of_missing, nothing))
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
    return column, np.stack(folds, axis=1)


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
