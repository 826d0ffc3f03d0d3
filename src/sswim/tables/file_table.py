"""The files of a table, each as a table of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from sswim.tables.chunked_table import ChunkedTable
from sswim.tables.csv_table import CsvTable, read_header, text_size
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.table_io import reading, table_suffix, without_string_view


@dataclass(frozen=True)
class FileTable:
    """One file of a table."""

    path: str
    table: ChunkedTable
    """Rows of the file."""
    size: int
    """Number of rows if it is known; otherwise an approximate number of bytes."""

    @property
    def has_row_count(self) -> bool:
        """Whether ``size`` is the number of rows."""
        return self.table.n_rows is not None

    def schema(self) -> pa.Schema:
        """Return the columns stored in the file itself, without Hive partition columns."""
        if isinstance(self.table, CsvTable):
            (file,) = self.table.files
            return pa.schema([self.table.schema.field(name) for name in file.names])
        if isinstance(self.table, ParquetTable):
            with reading(self.path, table_suffix(self.path)):
                schema = pq.read_schema(self.path)
            fields = [field.with_type(without_string_view(field.type)) for field in schema]
            return pa.schema(fields, schema.metadata)
        return self.table.schema


def split_by_file(table: ChunkedTable, used: Collection[str]) -> list[FileTable]:
    """Return all files of a table, in order.

    Args:
        table: The table.
        used: Columns that are used as numbers. Integers in other columns of CSV files stay
            integers, because they may be identifiers.
    """
    if isinstance(table, ParquetTable):
        return [
            FileTable(file.path, replace(table, files=(replace(file, first=0),)), file.n_rows)
            for file in table.files
        ]
    if isinstance(table, CsvTable):
        exact = _keep_integers(table, used)
        return [
            FileTable(file.path, replace(exact, files=(file,)), text_size(file.path))
            for file in exact.files
        ]
    return [FileTable(table.name, table, table.n_rows or 0)]


def _keep_integers(table: CsvTable, used: Collection[str]) -> CsvTable:
    """Return a table whose unused integer columns are read as integers, not as float64."""
    headers = (read_header(file.path) for file in table.files)
    first = next(header.schema for header in headers if header.has_rows)
    fields = [
        first.field(field.name)
        if pa.types.is_integer(first.field(field.name).type) and field.name not in used
        else field
        for field in table.schema
    ]
    return replace(table, schema=pa.schema(fields))
