"""What the texts of a column are: numbers, times or levels; collected chunk by chunk.

Missing values of tables: nulls and NaNs.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64, Int64

from sswim.rows.scaling import Moments
from sswim.tables.columns import CategoryColumn, Column, IgnoredColumn, NumberColumn, TimeColumn
from sswim.tables.levels import MAX_DISTINCT, LevelSums, as_levels
from sswim.tables.table_io import TableError, quote_names, require_columns, without_string_views
from sswim.tables.target_encoding import FoldMeans, encode_levels
from sswim.tables.text_formats import NUMBER_FORMATS, TIME_FORMATS

TELLING_ROWS = 20
"""Fewest rows without a value from which the model learns what a missing value means."""
TELLING_SHARE = 0.01
"""Smallest share of such rows."""


def is_missing(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each value is null or NaN."""
    return pc.is_null(values, nan_is_null=True)


def is_telling(n_missing: int, n_rows: int) -> bool:
    """Return whether a column is so often missing that this becomes an input of its own.

    What few rows say of missing values does more harm than good (``benchmarks/missing_cells.py``).
    """
    return n_missing >= max(TELLING_ROWS, TELLING_SHARE * n_rows)


def missing_counts(table: pa.Table, names: Collection[str]) -> dict[str, int]:
    """Count the missing values of columns; columns without any are left out."""
    require_columns(table.schema, names)
    counts = {name: pc.sum(is_missing(table.column(name))).as_py() or 0 for name in names}
    return {name: count for name, count in counts.items() if count}


def require_any_complete(n_kept: int, table: pa.Table, names: Collection[str]) -> None:
    """Raise an error if no row is kept.

    Args:
        n_kept: Number of rows that are kept.
        table: All rows.
        names: Columns that a row must have a value in to be kept.
    """
    if not n_kept:
        raise TableError(
            "At least one row must be complete. Got missing values in "
            f"{_describe(missing_counts(table, names))}, in all of the rows together; leave out "
            "the emptiest of these columns with --drop."
        )


def complete_rows(table: pa.Table, names: Collection[str]) -> Bool[np.ndarray, " N"]:
    """Return whether each row has a value in all of the columns."""
    complete = np.ones(table.num_rows, dtype=bool)
    for name in missing_counts(table, names):
        complete &= ~is_missing(table.column(name)).to_numpy()
    return complete


def keep_rows(table: pa.Table, kept: Bool[np.ndarray, " N"]) -> pa.Table:
    """Return the rows where ``kept`` is true."""
    table = without_string_views(table)
    try:
        return table if kept.all() else table.filter(pa.array(kept))
    except pa.ArrowNotImplementedError as error:  # string views inside lists
        raise TableError(f"Rows of this table cannot be left out: {error}") from error


def _describe(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({count} rows)" for name, count in counts.items())


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
    numbers: dict[str, Misfits] = field(
        default_factory=lambda: {marks: Misfits() for marks in NUMBER_FORMATS}
    )
    """Misfits of the formats of numbers that still are possible, and of the plainest."""
    times: dict[str, Misfits] = field(
        default_factory=lambda: {pattern: Misfits() for pattern in TIME_FORMATS}
    )
    """Misfits of the formats of times that still are possible."""

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
        for found, formats in ((self.numbers, NUMBER_FORMATS), (self.times, TIME_FORMATS)):
            for name, misfits in found.items():
                bad = formats[name].parse(distinct).is_null().to_numpy(zero_copy_only=False)
                some = distinct.filter(pa.array(bad))[: MAX_MARKERS + 1].to_pylist()
                misfits.add(some, int(counts[bad].sum()))
        self._drop_formats()

    def _drop_formats(self) -> None:
        """Forget the formats that are not possible, except the plainest one of numbers."""
        for found in (self.numbers, self.times):
            for name in [name for name, misfits in found.items() if misfits.are_many]:
                if name != ".":
                    del found[name]

    def merge(self, other: TextFindings) -> None:
        """Add what was found in other rows."""
        self.levels.merge(other.levels)
        self.n_texts += other.n_texts
        self.n_missing += other.n_missing
        for mine, theirs in ((self.numbers, other.numbers), (self.times, other.times)):
            for name in {*mine} - {*theirs}:
                del mine[name]
            for name, misfits in mine.items():
                misfits.add(sorted(theirs[name].texts), theirs[name].n_rows)
        self._drop_formats()

    def learn(
        self, name: str, targets: Sequence[Moments]
    ) -> tuple[Column, FoldMeans | None, list[str]]:
        """Return the column that the texts make, and notes for the user.

        Args:
            name: Name of the column.
            targets: Moments of the targets of each fold.
        """
        if not self.n_texts:
            reason = "it has no values"
            return IgnoredColumn(name, reason), None, [f"Column {name!r} is not used: {reason}."]
        if self.is_plain:
            found = self._as_numbers(name) or self._as_times(name)
            if found is not None:
                return found[0], None, found[1]
        return self._as_levels(name, targets)

    def _as_numbers(self, name: str) -> tuple[Column, list[str]] | None:
        best = self._best_formats(self.numbers)
        if not best:
            return None
        marks = best[0]
        others = self.numbers[marks]
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
        best = self._best_formats(self.times)
        if not best:
            return None
        others = self.times[best[0]]
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

    def _best_formats(self, found: dict[str, Misfits]) -> list[str]:
        """Return the formats that most texts have, if few enough texts have another."""
        possible = {
            name: misfits.n_rows
            for name, misfits in found.items()
            if not misfits.are_many and misfits.n_rows <= MAX_MARKED * self.n_texts
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
    ) -> tuple[Column, FoldMeans | None, list[str]]:
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
        others = self.numbers["."]
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
