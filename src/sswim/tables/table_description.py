"""What would be read of a table: its format, and what each column is taken for."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from sswim.tables.columns import CategoryColumn, Column, IgnoredColumn, LevelMeansColumn, TimeColumn
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions
from sswim.tables.csv_table import CsvTable
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.schema_learning import learn_schema
from sswim.tables.table import ChunkedTable
from sswim.tables.table_io import open_table
from sswim.tables.table_rows import TargetedRows
from sswim.tables.values import as_levels, kind_of

N_EXAMPLES = 3
"""Number of different values that are shown of each column."""


@dataclass(frozen=True)
class ColumnDescription:
    """What a column is taken for."""

    name: str
    kind: str
    """Kind of the column, in words."""
    values: str
    """Range of numbers and times, or number of levels."""
    n_missing: int
    examples: tuple[str, ...]
    """The first different values."""


@dataclass(frozen=True)
class TableDescription:
    """What would be read of a table."""

    form: str
    """Format of the files, in words."""
    n_rows: int
    columns: tuple[ColumnDescription, ...]
    notes: tuple[str, ...]
    """What the user should know about how the table is read, one line each."""


def describe_table(
    path: str | Path, csv: CsvOptions = AS_FOUND, text: Collection[str] = ()
) -> TableDescription:
    """Read a table, and say what each of its columns would be if it were an input.

    Args:
        path: A file, or a folder of Parquet or CSV files.
        csv: How CSV files are read.
        text: Columns of text that are levels, whatever their texts look like.
    """
    table = open_table(path, csv=csv)
    usable = pa.schema(
        [field for field in table.schema if kind_of(field.type) or pa.types.is_null(field.type)]
    )

    def pieces() -> Iterator[TargetedRows]:
        for chunk in table.chunks(usable.names):
            n_rows = chunk.table.num_rows
            yield TargetedRows(np.arange(n_rows) + chunk.first, chunk.table, np.zeros((n_rows, 1)))

    learnt = learn_schema(pieces, usable, text=text)
    columns = {column.name: column for column in learnt.schema.columns}
    columns_seen = {name: _Seen() for name in table.schema.names}
    for chunk in table.chunks(table.schema.names):
        for name, seen in columns_seen.items():
            seen.add(columns.get(name), chunk.table.column(name))
    described = tuple(
        columns_seen[field.name].describe(field, columns.get(field.name)) for field in table.schema
    )
    return TableDescription(_form(table), table.n_rows, described, (*table.notes, *learnt.notes))


@dataclass
class _Seen:
    """What was seen of a column so far."""

    low: float = np.inf
    high: float = -np.inf
    n_missing: int = 0
    examples: dict[str, None] = field(default_factory=dict)

    def add(self, column: Column | None, values: pa.ChunkedArray) -> None:
        """Add the values of a chunk."""
        if len(self.examples) < N_EXAMPLES:
            some = values.drop_null()[:1000]
            texts = as_levels(some) if kind_of(values.type) else some
            self.examples |= dict.fromkeys(map(str, texts.to_pylist()))
        if column is None or isinstance(column, CategoryColumn | LevelMeansColumn | IgnoredColumn):
            self.n_missing += values.null_count
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a model would say of rows to predict
            numbers = column.encode(values)[:, 0]
        known = numbers[np.isfinite(numbers)]
        self.n_missing += len(numbers) - len(known)
        self.low, self.high = known.min(initial=self.low), known.max(initial=self.high)

    def describe(self, field: pa.Field, column: Column | None) -> ColumnDescription:
        """Return the description of the column."""
        examples = tuple(list(self.examples)[:N_EXAMPLES])
        kind, values = self._kind(field, column)
        return ColumnDescription(field.name, kind, values, self.n_missing, examples)

    def _kind(self, field: pa.Field, column: Column | None) -> tuple[str, str]:
        match column:
            case None:
                return f"cannot be used: type {field.type}", ""
            case IgnoredColumn():
                return f"not used: {column.reason}", ""
            case CategoryColumn():
                others = " and others" if column.has_other else ""
                return "category", f"{len(column.levels)} levels{others}"
            case LevelMeansColumn():
                return "category", f"{len(column.levels)} levels"
            case TimeColumn():
                return (
                    "time",
                    "" if column.is_time_of_day else f"{_date(self.low)} to {_date(self.high)}",
                )
        return column.kind, f"{self.low:.6g} to {self.high:.6g}"


def _date(seconds: float) -> str:
    """Return a time as text, without the time of day if it is midnight."""
    if not np.isfinite(seconds):
        return "?"
    return str(np.datetime64(int(seconds), "s")).replace("T00:00:00", "").replace("T", " ")


def _form(table: ChunkedTable) -> str:
    """Return the format of the files of a table, in words."""
    if isinstance(table, CsvTable):
        dialects = " or ".join(dict.fromkeys(file.dialect.describe() for file in table.files))
        return f"{_count(len(table.files), 'CSV file')}: {dialects}"
    if isinstance(table, ParquetTable):
        return _count(len(table.files), "Parquet file")
    return "1 Arrow file"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
