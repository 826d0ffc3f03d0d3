"""The files of a table, each as a table of its own."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from sswim.tables.csv_tables import GZIP_RATIO, CsvTables, first_rows
from sswim.tables.parquet_tables import ParquetTables
from sswim.tables.table_io import reading, table_suffix, without_view
from sswim.tables.table_parts import Tables


@dataclass(frozen=True)
class FileTable:
    """One file of a table."""

    path: str
    tables: Tables
    """Its rows."""
    size: int
    """In rows where these are counted, else about in bytes."""

    @property
    def counted(self) -> bool:
        """Whether the size is that in rows."""
        return self.tables.n_rows is not None

    def schema(self) -> pa.Schema:
        """Of the file itself: without the columns that the names of folders are."""
        if isinstance(self.tables, CsvTables):
            (file,) = self.tables.files
            return pa.schema([self.tables.schema.field(name) for name in file.names])
        if isinstance(self.tables, ParquetTables):
            with reading(self.path, ".parquet"):
                schema = pq.read_schema(self.path)
            fields = [field.with_type(without_view(field.type)) for field in schema]
            return pa.schema(fields, schema.metadata)
        return self.tables.schema


def file_tables(tables: Tables, used: Collection[str]) -> list[FileTable]:
    """All files of a table, in its order.

    Args:
        tables: The table.
        used: The columns of which numbers are wanted. Whole numbers in other columns of CSV stay
            whole, for they may be identifiers.
    """
    if isinstance(tables, ParquetTables):
        return [
            FileTable(file.path, replace(tables, files=(replace(file, first=0),)), file.n_rows)
            for file in tables.files
        ]
    if isinstance(tables, CsvTables):
        exact = _unrounded(tables, used)
        return [
            FileTable(file.path, replace(exact, files=(file,)), _text_bytes(file.path))
            for file in exact.files
        ]
    return [FileTable(tables.name, tables, tables.n_rows or 0)]


def _unrounded(tables: CsvTables, used: Collection[str]) -> CsvTables:
    """The same table, in which columns of whole numbers that are not used have such a type."""
    looks = (first_rows(file.path) for file in tables.files)
    first = next(schema for schema, _, has_rows in looks if has_rows)
    fields = [
        first.field(field.name)
        if pa.types.is_integer(first.field(field.name).type) and field.name not in used
        else field
        for field in tables.schema
    ]
    return replace(tables, schema=pa.schema(fields))


def _text_bytes(path: str) -> int:
    return os.path.getsize(path) * (GZIP_RATIO if table_suffix(path) == ".csv.gz" else 1)
