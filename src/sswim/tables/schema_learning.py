"""Learning a schema from the rows of a table, which need not fit in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float64, Int64

from sswim.distributed.processes import ALONE, Processes
from sswim.rows.imputer import GaussianImputer, impute, learn_imputer
from sswim.rows.scaling import Moments, moments
from sswim.rows.summary import smallest_keys
from sswim.tables.columns import (
    CYCLES,
    Column,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    SphereColumn,
    TimeColumn,
    centre_of,
)
from sswim.tables.levels import N_FOLDS, TextFindings, fold_numbers, is_telling
from sswim.tables.schema import Schema
from sswim.tables.table import TableError, quote_names
from sswim.tables.values import is_text, kind_of, missing_values

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
    _require_names("text", text, columns)
    _require_names("coordinates", coordinates or (), columns)
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
    numbers: Int64[np.ndarray, " m"] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Row numbers of the sample."""
    sample: pa.Table = field(default_factory=lambda: pa.table({}))
    """A random sample of the rows."""
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
        self.merge(Findings({}, len(folds), Counter(missing), targets, rows.numbers, rows.table))

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
        numbers = np.concatenate((self.numbers, other.numbers))
        chosen = smallest_keys(numbers, SAMPLE_ROWS)
        chosen = chosen[np.argsort(numbers[chosen])]
        tables = [self.sample, other.sample] if self.sample.num_columns else [other.sample]
        together = pa.concat_tables(tables, promote_options="permissive")
        self.numbers, self.sample = numbers[chosen], together.take(pa.array(chosen))


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
            column = replace(column, cycles=_cycles(column, findings.sample))
        made.append(column)
    sphere = None if coordinates is None else _sphere(coordinates, made, findings.sample)
    schema = Schema(target, tuple(made), sphere)
    if not schema.feature_names:
        raise TableError(
            "At least one column must be of use. Got none: " + " ".join(notes or ["no columns."])
        )
    sample = schema.encode(findings.sample)[:, ~schema.indicators]
    return LearntSchema(schema, learn_imputer(sample), fold_means, tuple(notes))


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


def _require_names(what: str, names: Collection[str], columns: pa.Schema) -> None:
    """Raise unless an option names input columns."""
    if absent := [name for name in names if name not in columns.names]:
        raise TableError(
            f"{what} must name input columns. Got {quote_names(absent)}; there are "
            f"{quote_names(columns.names)}."
        )
