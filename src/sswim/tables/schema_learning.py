"""Learning a schema from the rows of a table, which need not fit in memory.

What the texts of a column are, numbers, times or levels, is found chunk by chunk, in each process.
A category of several levels becomes the mean target of its level, and indicators of the common
ones. A level's mean is drawn to the mean of all rows by as many rows as the spread between levels
and the noise within them suggest (the estimate of a random effect). A row's own target must not be
part of its input: in training each row has the means of the other folds.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float64, Int64

from sswim.distributed.processes import ALONE, Processes
from sswim.rows.imputer import GaussianImputer, impute, learn_imputer
from sswim.rows.scaling import Moments, moments
from sswim.rows.summary import sample_keys, smallest_keys
from sswim.tables.columns import (
    CYCLES,
    CategoryColumn,
    Column,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    SphereColumn,
    TimeColumn,
    centre_of,
)
from sswim.tables.schema import Schema
from sswim.tables.table import TableError, quote_names
from sswim.tables.values import (
    NUMBER_FORMATS,
    TIME_FORMATS,
    as_levels,
    is_text,
    kind_of,
    missing_values,
    parse_texts,
)

SAMPLE_ROWS = 2000
"""Number of rows from which cycles of times and the imputer are learnt."""


@dataclass(frozen=True)
class TargetedRows:
    """Some rows with their targets."""

    numbers: Int64[np.ndarray, " n"]
    """Row numbers within the whole table."""
    table: pa.Table
    """The input columns."""
    targets: Float64[np.ndarray, "n T"]
    weight: Float64[np.ndarray, " n"] | None = None
    n_left_out: int = 0
    """Number of rows that were left out of the same chunk."""
    file: str = ""
    """File that the rows come from."""

    def pieces(self, size: int) -> Iterator[TargetedRows]:
        """Cut the rows into pieces of ``size`` rows; the last may have fewer."""
        for first in range(0, len(self.numbers), size):
            part = slice(first, first + size)
            yield replace(
                self,
                numbers=self.numbers[part],
                table=self.table.slice(first, size),
                targets=self.targets[part],
                weight=None if self.weight is None else self.weight[part],
            )


def sample_rows(parts: Sequence[TargetedRows], size: int, random_state: int = 0) -> TargetedRows:
    """Return the rows of a few parts whose numbers have the smallest keys, in order."""
    numbers = np.concatenate([part.numbers for part in parts])
    chosen = smallest_keys(numbers, size, random_state)
    chosen = chosen[np.argsort(numbers[chosen])]  # several processes may have read them
    table = pa.concat_tables([part.table for part in parts], promote_options="permissive")
    targets = np.concatenate([part.targets for part in parts])
    return TargetedRows(numbers[chosen], table.take(chosen), targets[chosen])


@dataclass(frozen=True)
class LearntSchema:
    """A schema, and what was learnt with it."""

    schema: Schema
    imputer: GaussianImputer
    """Imputer of the inputs that are not indicators."""
    fold_means: Mapping[str, Float64[np.ndarray, "L K T"]]
    """Mean targets of the levels of columns, without those of each fold."""
    notes: tuple[str, ...] = ()
    """What the user may want to know about the columns."""

    def encode(
        self, numbers: Int64[np.ndarray, " N"], table: pa.Table
    ) -> Float64[np.ndarray, "N D"]:
        """Return the inputs of rows of training, with missing values imputed.

        They count as known: uncertain inputs make training many times slower, and their predictions
        are no better (docs/tables.md).

        Args:
            numbers: Numbers of the rows within the table.
            table: The rows.
        """
        inputs = self.schema.encode(table, self.fold_means, fold_numbers(numbers))
        indicators = self.schema.indicators
        return impute(inputs, self.imputer, None, indicators, np.ones_like(indicators))[0]


def learn_schema(
    pieces: Callable[[], Iterable[TargetedRows]],
    columns: pa.Schema,
    target: str = "",
    *,
    text: Collection[str] = (),
    coordinates: tuple[str, str] | None = None,
    processes: Processes = ALONE,
) -> LearntSchema:
    """Learn how the columns of a table become inputs, in one pass over its rows.

    Args:
        pieces: Function that reads the rows of this process.
        columns: The input columns.
        target: Name of the target column, if the table has it.
        text: Columns of text that are levels, whatever their texts look like.
        coordinates: Columns of longitude and latitude, in degrees.
        processes: Processes that call this together; each reads its share of the rows.
    """
    _require_kinds(columns)
    for what, names in (("text", text), ("coordinates", coordinates or ())):
        if absent := [name for name in names if name not in columns.names]:
            raise TableError(
                f"{what} must name input columns. Got {quote_names(absent)}; there are "
                f"{quote_names(columns.names)}."
            )
    findings = Findings(
        {
            column.name: TextFindings(is_text(column.type) and column.name not in text)
            for column in columns
            if kind_of(column.type) == "category" or column.name in text
        }
    )
    try:
        for rows in pieces():
            findings.add(rows)
    except TableError as error:
        if processes.size == 1:
            raise
        findings.error = str(error)  # the other processes wait for the findings
    findings, *others = processes.all_gather(findings)
    for part in others:
        findings.merge(part)
    if findings.error:
        raise TableError(findings.error)
    return _learnt(findings, columns, target, coordinates)


N_FOLDS = 5
"""Number of folds of rows that leave each other out when levels are encoded by their targets."""

MAX_DISTINCT = 200_000
"""Number of distinct texts above which a column is not collected any further."""


def fold_numbers(numbers: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """Return the fold of each row, which depends on its number alone."""
    return (sample_keys(numbers) % np.uint64(N_FOLDS)).astype(np.int64)


@dataclass
class LevelSums:
    """Rows, weights and sums of targets of the levels of a column, in each fold."""

    index: dict[str | None, int] = field(default_factory=dict)
    """The number of each level, in the order of their appearance; None is a missing value."""
    sums: Float64[np.ndarray, "L K S"] = field(default_factory=lambda: np.zeros((0, N_FOLDS, 1)))
    """Number of rows, sum of weights and sums of weighted targets, for each level and fold."""

    @classmethod
    def of(
        cls,
        levels: pa.ChunkedArray,
        folds: Int64[np.ndarray, " n"],
        targets: Float64[np.ndarray, "n T"],
        weight: Float64[np.ndarray, " n"] | None,
    ) -> LevelSums:
        """Return the sums of some rows."""
        encoded = levels.combine_chunks().dictionary_encode(null_encoding="encode")
        texts = encoded.dictionary.to_pylist()
        cells = encoded.indices.to_numpy().astype(np.int64) * N_FOLDS + folds
        once = np.ones(len(folds))
        weight = once if weight is None else weight
        columns = [once, weight, *(weight * column for column in targets.T)]
        sums = [np.bincount(cells, column, len(texts) * N_FOLDS) for column in columns]
        index = {text: number for number, text in enumerate(texts)}
        return cls(index, np.stack(sums, axis=1).reshape(len(texts), N_FOLDS, len(columns)))

    @property
    def overflows(self) -> bool:
        """Whether there are too many levels to collect."""
        return len(self.index) > MAX_DISTINCT

    def merge(self, other: LevelSums) -> None:
        """Add the sums of other rows, unless there are too many levels."""
        if self.overflows:
            return
        where = [self.index.setdefault(level, len(self.index)) for level in other.index]
        if len(self.index) > len(self.sums):
            sums = np.zeros((len(self.index), *other.sums.shape[1:]))
            sums[: len(self.sums)] = self.sums
            self.sums = sums
        self.sums[np.array(where, dtype=np.int64)] += other.sums

    @property
    def levels(self) -> list[str]:
        """The levels in order, without the missing value."""
        return sorted(level for level in self.index if level is not None)

    @property
    def sorted_sums(self) -> Float64[np.ndarray, "l K S"]:
        """Weights and sums of targets of the levels in order, of missing values and of nothing."""
        order = [*(self.index[level] for level in self.levels), self.index.get(None, -1), -1]
        return np.concatenate((self.sums, np.zeros((1, *self.sums.shape[1:]))))[order, :, 1:]

    def fold_means(self, targets: Sequence[Moments]) -> Float64[np.ndarray, "l K T"]:
        """Return the mean targets of levels without each fold, for rows of training.

        Args:
            targets: Moments of the targets of each fold.
        """
        # Sums of the other folds, and not all sums less those of a fold, so that its targets are
        # not even in the rounding.
        others = [[other for other in range(N_FOLDS) if other != fold] for fold in range(N_FOLDS)]
        sums = self.sorted_sums
        means = [level_means(sums[:, rest], [targets[fold] for fold in rest]) for rest in others]
        return np.stack(means, axis=1)


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
        if not self.levels.overflows:
            self.levels.merge(LevelSums.of(texts, folds, targets, weight))
        self.n_texts += len(texts) - texts.null_count
        self.n_missing += texts.null_count
        if not self.is_plain:
            return
        encoded = texts.drop_null().combine_chunks().dictionary_encode()
        distinct = encoded.dictionary
        counts = np.bincount(encoded.indices.to_numpy(), minlength=len(distinct))
        for name, misfits in self.misfits.items():
            bad = parse_texts(distinct, name).is_null().to_numpy(zero_copy_only=False)
            some = distinct.filter(pa.array(bad))[: MAX_MARKERS + 1].to_pylist()
            misfits.add(some, int(counts[bad].sum()))
        self._drop_formats()

    def merge(self, other: TextFindings) -> None:
        """Add what was found in other rows."""
        self.levels.merge(other.levels)
        self.n_texts += other.n_texts
        self.n_missing += other.n_missing
        self.misfits = {name: self.misfits[name] for name in self.misfits if name in other.misfits}
        for name, misfits in self.misfits.items():
            misfits.add(sorted(other.misfits[name].texts), other.misfits[name].n_rows)
        self._drop_formats()

    def _drop_formats(self) -> None:
        """Forget the formats that are not possible, except the plainest one of numbers."""
        possible = self.misfits.items()
        self.misfits = {name: some for name, some in possible if name == "." or not some.are_many}

    def learn(self, name: str, targets: Sequence[Moments]) -> tuple[Column, list[str]]:
        """Return the column that the texts make, and notes for the user.

        Args:
            name: Name of the column.
            targets: Moments of the targets of each fold.
        """
        if not self.n_texts:
            return IgnoredColumn(name, "it has no values"), []
        if self.is_plain and (best := self._best_formats(NUMBER_FORMATS)):
            return self._as_numbers(name, best[0])
        if self.is_plain and (best := self._best_formats(TIME_FORMATS)):
            return self._as_times(name, best)
        return self._as_levels(name, targets)

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

    def _as_numbers(self, name: str, marks: str) -> tuple[Column, list[str]]:
        how = ""
        if marks != ".":
            thousands = f" and {marks[1]!r} between thousands" if marks[1:] else ""
            how = f", with {marks[0]!r} before fractions{thousands}"
        notes = self._note_markers(name, marks, "numbers", how) or [
            f"Column {name!r} is text, and all of it numbers: read as numbers{how}; "
            + _how_to_keep(name)
        ]
        others = self.misfits[marks]
        has_missing = self._is_telling(others.n_rows)
        return NumberColumn(name, has_missing, marks, tuple(sorted(others.texts))), notes

    def _as_times(self, name: str, best: Sequence[str]) -> tuple[Column, list[str]]:
        pattern, others = best[0], self.misfits[best[0]]
        notes = self._note_markers(name, pattern, "dates or times")
        if len(best) > 1:  # all days are below 13
            notes.append(
                f"Column {name!r} has dates in which day and month cannot be told apart: read as "
                f"{pattern}; write them as YYYY-MM-DD if that is wrong."
            )
        column = TimeColumn(
            name,
            self._is_telling(others.n_rows),
            zone="UTC" if pattern == "ISO 8601 with offset" else "",
            text_format=pattern,
            markers=tuple(sorted(others.texts)),
        )
        return column, notes

    def _note_markers(self, name: str, format_: str, words: str, how: str = "") -> list[str]:
        """Tell which texts stand for missing values, if there are any."""
        others = self.misfits[format_]
        if not others.n_rows:
            return []
        values = "1 other value" if others.n_rows == 1 else f"{others.n_rows} other values"
        return [
            f"Column {name!r} has {self.n_texts - others.n_rows} {words} and {values}, "
            f"{quote_names(sorted(others.texts))}: read as {words}{how}, with {others.n_rows} "
            f"missing; {_how_to_keep(name)}"
        ]

    def _as_levels(self, name: str, targets: Sequence[Moments]) -> tuple[Column, list[str]]:
        levels = self.levels.levels
        if self.levels.overflows:
            return IgnoredColumn(name, f"it has more than {MAX_DISTINCT:,} different texts"), []
        if len(levels) == self.n_texts > IDENTIFIER_ROWS:
            return IgnoredColumn(name, "it has a different text in every row"), []
        notes = []
        others = self.misfits["."]
        n_numbers = self.n_texts - others.n_rows
        if self.is_plain and n_numbers >= 0.5 * self.n_texts:
            notes = [
                f"Column {name!r} has {n_numbers} numbers and {others.n_rows} other values, such "
                f"as {quote_names(sorted(others.texts))}: used as text of {len(levels)} levels; "
                "correct these values if it should be numbers."
            ]
        shown = self._indicators(name, levels)
        is_long = len(levels) > 2 and self.n_texts >= MEAN_ROWS
        if shown is not None and not shown.has_other and not is_long:
            return shown, notes
        *means, missing, other = map(tuple, level_means(self.levels.sorted_sums, targets).tolist())
        return LevelMeansColumn(name, tuple(levels), tuple(means), other, missing, shown), notes

    def _indicators(self, name: str, levels: list[str]) -> CategoryColumn | None:
        """Return the indicators of the levels that are common enough to have one."""
        fewest = max(RARE_SHARE * self.n_texts, min(RARE_ROWS, self.n_texts / 10))
        n_rows = self.levels.sums[:, :, 0].sum(1)
        counts = {level: n_rows[self.levels.index[level]] for level in levels}
        common = [level for level in levels if counts[level] >= fewest]
        common = sorted(sorted(common, key=counts.__getitem__, reverse=True)[:MAX_INDICATORS])
        if len(levels) - len(common) == 1 and len(levels) <= MAX_INDICATORS:
            common = levels  # a word for others would stand for one level
        if not common:
            return None
        has_other = len(common) < len(levels)
        return CategoryColumn(name, self._is_telling(), tuple(common), has_other)

    def _is_telling(self, n_others: int = 0) -> bool:
        """Return whether rows without a text, or with one of others, have an input of their own."""
        return is_telling(self.n_missing + n_others, self.n_missing + self.n_texts)


def _how_to_keep(name: str) -> str:
    return f"--text {shlex.quote(name)}, or the type category, keeps it as text."


MOST_ROWS = 1e6
"""Largest number of rows that the mean of all rows counts for."""

_ROUNDING = 1e-14
"""Part of the size of targets below which their differences are rounding."""


def level_means(
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
    rows = shrinkage_rows(standard, np.square(spread / unit))
    weight, *sums = total.sum(0)
    overall = np.array(sums) / max(weight, 1e-300)
    return (total[:, 1:] + rows * overall) / (total[:, :1] + rows)


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


@dataclass
class Findings:
    """What one process has found in its share of the rows."""

    texts: dict[str, TextFindings]
    """Findings of the columns of text."""
    n_rows: int = 0
    n_missing: Counter[str] = field(default_factory=Counter)
    """Number of missing values of each column."""
    targets: tuple[Moments, ...] = ()
    """Moments of the targets of each fold; none before rows are added."""
    sample: tuple[TargetedRows, ...] = ()
    """A random sample of the rows; none before rows are added."""
    error: str = ""
    """Message of the error that stopped the search, or an empty text."""

    def add(self, rows: TargetedRows) -> None:
        """Add some rows."""
        if not len(rows.numbers):
            return
        folds = fold_numbers(rows.numbers)
        columns = dict(zip(rows.table.column_names, rows.table.columns, strict=True))
        missing = {name: pc.sum(missing_values(values)).as_py() for name, values in columns.items()}
        for name, texts in self.texts.items():
            texts.add(columns[name], folds, rows.targets, rows.weight)
        targets = tuple(_moments(rows, folds == fold) for fold in range(N_FOLDS))
        self.merge(Findings({}, len(folds), Counter(missing), targets, (rows,)))

    def merge(self, other: Findings) -> None:
        """Add what was found in other rows."""
        for name, texts in other.texts.items():
            self.texts[name].merge(texts)
        self.error = self.error or other.error
        if not other.targets:
            return
        self.n_rows += other.n_rows
        self.n_missing.update(other.n_missing)
        pairs = zip(self.targets, other.targets, strict=True) if self.targets else ()
        self.targets = tuple(one + more for one, more in pairs) or other.targets
        self.sample = (sample_rows([*self.sample, *other.sample], SAMPLE_ROWS),)


def _moments(rows: TargetedRows, which: Bool[np.ndarray, " n"]) -> Moments:
    """Return the moments of the targets of some rows."""
    weight = None if rows.weight is None else torch.tensor(rows.weight[which])
    return moments(torch.tensor(rows.targets[which]), weight)


def _learnt(
    findings: Findings, columns: pa.Schema, target: str, coordinates: tuple[str, str] | None
) -> LearntSchema:
    """Return the schema of what was found."""
    if not findings.targets:
        raise TableError("A table must have at least one row that can be used. Got none.")
    sample = findings.sample[0].table
    made: list[Column] = []
    notes: list[str] = []
    fold_means: dict[str, Float64[np.ndarray, "L K T"]] = {}
    for arrow_field in columns:
        name = arrow_field.name
        if name in findings.texts:
            texts = findings.texts[name]
            column, more = texts.learn(name, findings.targets)
            notes += more
            if isinstance(column, LevelMeansColumn):
                fold_means[name] = texts.levels.fold_means(findings.targets)
        else:
            column = _column_without_text(arrow_field, findings.n_missing[name], findings.n_rows)
        if isinstance(column, IgnoredColumn):
            notes.append(f"Column {name!r} is not used: {column.reason}.")
        if isinstance(column, TimeColumn):
            column = replace(column, cycles=_cycles(column, sample))
        made.append(column)
    sphere = None if coordinates is None else _sphere(coordinates, made, sample)
    schema = Schema(target, tuple(made), sphere)
    if not schema.feature_names:
        raise TableError(
            "At least one column must be of use. Got none: " + " ".join(notes or ["no columns."])
        )
    imputer = learn_imputer(schema.encode(sample)[:, ~schema.indicators])
    return LearntSchema(schema, imputer, fold_means, tuple(notes))


def _column_without_text(arrow_field: pa.Field, n_missing: int, n_rows: int) -> Column:
    """Return the column that numbers or times make."""
    if n_missing == n_rows:
        return IgnoredColumn(arrow_field.name, "it has no values")
    has_missing = is_telling(n_missing, n_rows)
    if kind_of(arrow_field.type) != "time":
        return NumberColumn(arrow_field.name, has_missing)
    return TimeColumn(
        arrow_field.name,
        has_missing,
        zone=getattr(arrow_field.type, "tz", None) or "",
        is_time_of_day=pa.types.is_time(arrow_field.type),
    )


def _cycles(column: TimeColumn, sample: pa.Table) -> tuple[str, ...]:
    """Return the cycles over which times vary.

    These are the cycles of which the rows see at least half, in steps of at most half.
    """
    if column.is_time_of_day:
        return ("day",)
    seconds = column.encode(sample.column(column.name))[:, 0]
    distinct = np.unique(seconds[np.isfinite(seconds)])
    if len(distinct) < 3:
        return ()
    span, step = distinct[-1] - distinct[0], np.diff(distinct).min()
    return tuple(
        name
        for name, length in CYCLES.items()
        if span >= length / 2 >= step and len(np.unique(np.mod(distinct, length))) > 1
    )


def _sphere(coordinates: tuple[str, str], columns: list[Column], sample: pa.Table) -> SphereColumn:
    """Return how two columns become points on the sphere."""
    degrees = []
    for name in coordinates:
        column = next(column for column in columns if column.name == name)
        if not isinstance(column, NumberColumn):
            raise TableError(f"Coordinates must be degrees. Got {name!r}, which holds no numbers.")
        degrees.append(column.encode(sample.column(name))[:, 0])
    return SphereColumn(*coordinates, centre_of(*degrees))


def _require_kinds(columns: pa.Schema) -> None:
    """Raise one error about all columns that cannot be inputs."""
    bad = [
        column
        for column in columns
        if kind_of(column.type) is None and not pa.types.is_null(column.type)
    ]
    if bad:
        raise TableError(
            "\n".join(
                "An input must be a number, a date, a time, text or a category. Got column "
                f"{column.name!r} of type {column.type}; leave it out (--drop)."
                for column in bad
            )
        )
