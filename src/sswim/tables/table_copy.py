"""Copies of the files of a table, with further columns of numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float64

from sswim.base.files import atomic_write
from sswim.tables.chunked_table import ChunkedTable
from sswim.tables.csv_copy import copy_csv
from sswim.tables.csv_table import CsvTable
from sswim.tables.csv_text import is_csv
from sswim.tables.file_table import FileTable
from sswim.tables.missing_values import keep_rows
from sswim.tables.table_io import TableError, append_columns, table_suffix


@runtime_checkable
class TableCopy(Protocol):
    """A copy that is being written, some rows at a time and in order."""

    def append(
        self, kept: Bool[np.ndarray, " N"], columns: Mapping[str, Float64[np.ndarray, " n"]]
    ) -> None:
        """Copy the next rows.

        Args:
            kept: Whether each row becomes part of the copy.
            columns: Values of the new columns in the rows that do.
        """


def require_copy(source: str | Path, out: str | Path) -> None:
    """Raise unless a file can be copied in chunks: CSV to any format, others to Parquet."""
    if table_suffix(out) != ".parquet" and not is_csv(source):
        raise TableError(
            "Predictions of a table that is read in chunks must be written to a .parquet file, "
            f"unless it is a CSV file. Got {str(out)!r}."
        )


@contextmanager
def copy_file(
    file: FileTable, out: Path, names: Sequence[str], *, no_formulas: bool = False
) -> Iterator[TableCopy]:
    """Write a copy of a file; an older file is replaced when the copy is complete.

    Args:
        file: The file to copy.
        out: The file to write. If both are CSV files, the bytes of the first are kept.
        names: Names of the new columns.
        no_formulas: Whether cells of a CSV file that a spreadsheet would run become plain text.
    """
    if isinstance(file.table, CsvTable) and is_csv(out):
        (source,) = file.table.files
        with copy_csv(source, out, names, no_formulas=no_formulas) as copy:
            yield copy
    else:
        with _copy_with_types(file.as_written(), out, names) as typed_copy:
            yield typed_copy


class TypedCopy:
    """A copy in a file whose columns have types.

    Args:
        rows: The rows to copy.
        schema: Columns of the copy.
        writer: Writer of a Parquet or Arrow file.
    """

    def __init__(self, rows: RowReader, schema: pa.Schema, writer: Any) -> None:
        self._rows = rows
        self._schema = schema
        self._writer = writer

    def append(
        self, kept: Bool[np.ndarray, " N"], columns: Mapping[str, Float64[np.ndarray, " n"]]
    ) -> None:
        """Copy the next rows."""
        table = append_columns(keep_rows(self._rows.take(len(kept)), kept), columns)
        if table.num_rows:
            self._writer.write_table(table.cast(self._schema))


class RowReader:
    """The rows of a table in order, as many at a time as are wanted.

    Args:
        table: The table.
        names: Columns to read.
    """

    def __init__(self, table: ChunkedTable, names: Sequence[str]) -> None:
        self._chunks = (chunk.table for chunk in table.chunks(names))
        self._rest: pa.Table | None = None

    def take(self, n_rows: int) -> pa.Table:
        """Return the next rows."""
        found: list[pa.Table] = []
        while n_rows > 0:
            rest = next(self._chunks) if self._rest is None else self._rest
            found.append(rest.slice(0, n_rows))
            n_rows -= found[-1].num_rows
            rest = rest.slice(found[-1].num_rows)
            self._rest = rest if rest.num_rows else None
        return pa.concat_tables(found)


@contextmanager
def _copy_with_types(table: ChunkedTable, out: Path, names: Sequence[str]) -> Iterator[TypedCopy]:
    empty = append_columns(table.schema.empty_table(), {name: np.empty(0) for name in names})
    is_parquet = table_suffix(out) == ".parquet"
    try:
        with (
            atomic_write(out) as temporary,
            pa.OSFile(str(temporary), "wb") as file,
            (pq.ParquetWriter if is_parquet else pa.ipc.new_file)(file, empty.schema) as writer,
        ):
            yield TypedCopy(RowReader(table, table.schema.names), empty.schema, writer)
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"The table cannot be written to {str(out)!r}: {error}") from error
