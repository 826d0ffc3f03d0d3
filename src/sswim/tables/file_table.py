"""The files of a table, each as a table of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.parquet as pq

from sswim.tables.arrow_types import without_string_view
from sswim.tables.chunked_table import ChunkedTable
from sswim.tables.csv_table import CsvTable
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.table_io import reading, table_suffix


@dataclass(frozen=True)
class FileTable:
    """One file of a table."""

    path: str
    table: ChunkedTable
    """Rows of the file."""
    size: int
    """Number of rows."""
    whole: ChunkedTable
    """The table that the file is a part of."""

    def as_written(self) -> ChunkedTable:
        """Return the columns that the file itself has, with types that lose nothing of them.

        Hive partition columns, which are in the names of folders, are not among them.
        """
        if isinstance(self.table, CsvTable) and isinstance(self.whole, CsvTable):
            (file,) = self.table.files
            types = self.whole.written_types  # the same for all files
            return replace(
                self.table, schema=pa.schema([(name, types[name]) for name in file.names])
            )
        if isinstance(self.table, ParquetTable):
            with reading(self.path, table_suffix(self.path)):
                schema = pq.read_schema(self.path)
            fields = [field.with_type(without_string_view(field.type)) for field in schema]
            return replace(self.table, schema=pa.schema(fields, schema.metadata))
        return self.table


def split_by_file(table: ChunkedTable) -> list[FileTable]:
    """Return all files of a table, in order."""
    if isinstance(table, ParquetTable):
        return [
            FileTable(
                file.path, replace(table, files=(replace(file, first=0),)), file.n_rows, table
            )
            for file in table.files
        ]
    if isinstance(table, CsvTable):
        return [
            FileTable(file.path, replace(table, files=(file,), file_rows=(n_rows,)), n_rows, table)
            for file, n_rows in zip(table.files, table.file_rows, strict=True)
        ]
    return [FileTable(table.name, table, table.n_rows, table)]
