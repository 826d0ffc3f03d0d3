"""What would be read of a table: its format, and what each column is taken for."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from sswim.tables.columns import (
    CategoryColumn,
    Column,
    IgnoredColumn,
    LevelMeansColumn,
    NumberColumn,
    TimeColumn,
)
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions
from sswim.tables.csv_table import CsvTable
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.schema_learning import TargetedRows, learn_schema
from sswim.tables.table_io import ChunkedTable, open_table
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
    seen = {field.name: _Seen(columns.get(field.name), field.type) for field in table.schema}
    for chunk in table.chunks(table.schema.names):
        for name, values in zip(chunk.table.column_names, chunk.table.columns, strict=True):
            seen[name].add(values)
    described = tuple(column.describe(name) for name, column in seen.items())
    return TableDescription(_form(table), table.n_rows, described, (*table.notes, *learnt.notes))


@dataclass
class _Seen:
    """What was seen of a column so far."""

    column: Column | None
    dtype: pa.DataType
    low: float = np.inf
    high: float = -np.inf
    n_missing: int = 0
    examples: dict[str, None] = field(default_factory=dict)

    def add(self, values: pa.ChunkedArray) -> None:
        """Add the values of a chunk."""
        if len(self.examples) < N_EXAMPLES:
            some = values.drop_null()[:1000]
            texts = as_levels(some) if kind_of(values.type) else some
            self.examples |= dict.fromkeys(map(str, texts.to_pylist()))
        if not isinstance(self.column, NumberColumn | TimeColumn):
            self.n_missing += values.null_count
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a model would say of rows to predict
            numbers = self.column.encode(values)[:, 0]
        known = numbers[np.isfinite(numbers)]
        self.n_missing += len(numbers) - len(known)
        self.low, self.high = known.min(initial=self.low), known.max(initial=self.high)

    def describe(self, name: str) -> ColumnDescription:
        """Return the description of the column."""
        kind, values = "category", ""
        match self.column:
            case None:
                kind = f"cannot be used: type {self.dtype}"
            case IgnoredColumn(reason=reason):
                kind = f"not used: {reason}"
            case CategoryColumn(levels=levels, has_other=has_other):
                values = f"{len(levels)} levels{' and others' if has_other else ''}"
            case LevelMeansColumn(levels=levels):
                values = f"{len(levels)} levels"
            case NumberColumn():
                kind, values = "number", f"{self.low:.6g} to {self.high:.6g}"
            case TimeColumn(is_time_of_day=is_time_of_day):
                span = "" if is_time_of_day else f"{_date(self.low)} to {_date(self.high)}"
                kind, values = "time", span
        examples = tuple(list(self.examples)[:N_EXAMPLES])
        return ColumnDescription(name, kind, values, self.n_missing, examples)


def _date(seconds: float) -> str:
    """Return a time as text, without the time of day if it is midnight."""
    if not np.isfinite(seconds):
        return "?"
    return str(np.datetime64(int(seconds), "s")).replace("T00:00:00", "").replace("T", " ")


def _form(table: ChunkedTable) -> str:
    """Return the format of the files of a table, in words."""
    if not isinstance(table, CsvTable | ParquetTable):
        return "1 Arrow file"
    what = "CSV file" if isinstance(table, CsvTable) else "Parquet file"
    count = f"{len(table.files)} {what}" + ("" if len(table.files) == 1 else "s")
    if isinstance(table, ParquetTable):
        return count
    dialects = " or ".join(dict.fromkeys(file.dialect.describe() for file in table.files))
    return f"{count}: {dialects}"
