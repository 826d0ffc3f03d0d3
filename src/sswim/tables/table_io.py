"""Reading, opening and writing tables: Parquet, CSV and Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from jaxtyping import Num

from sswim.files.output_files import atomic_write
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions, is_csv, text_size
from sswim.tables.csv_table import CsvTable, read_csv
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.table import (
    CSV_SUFFIXES,
    MemoryTable,
    TableError,
    reading,
    require_columns,
    require_file,
    require_new_names,
    require_shape,
    require_unique,
    table_files,
    table_suffix,
)
from sswim.tables.values import without_string_views

ChunkedTable = MemoryTable | ParquetTable | CsvTable
"""A table of which one chunk at a time is in memory."""


def read_table(path: str | Path, csv: CsvOptions = AS_FOUND) -> pa.Table:
    """Read a table in the format that its suffix names.

    In CSV an empty cell is a missing value, in text and number columns alike; so are NA and NaN.

    Args:
        path: The file.
        csv: How it is read if it is a CSV file.
    """
    require_file(path)
    suffix = table_suffix(path)
    if suffix in CSV_SUFFIXES:
        return read_csv(path, csv).table
    with reading(path), pa.OSFile(str(path)) as stream:
        if suffix == ".parquet":
            # Unlike pq.read_table, this does not turn folder names into columns.
            table = pq.ParquetFile(stream).read()
        else:
            is_file = stream.read(6) == b"ARROW1"
            stream.seek(0)
            table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(stream).read_all()
        table.validate(full=True)  # Arrow does not check content by itself, and may crash.
        table = without_string_views(table)
    require_shape(table.num_rows, table.num_columns, path)
    require_unique(table.column_names, path)
    return table


def open_table(
    path: str | Path, memory: int | None = None, csv: CsvOptions = AS_FOUND
) -> ChunkedTable:
    """Open a file in the format that its suffix names, or a folder of Parquet or CSV files.

    Args:
        path: The file or folder.
        memory: Size in bytes up to which a Parquet or CSV file is read whole now. Larger files and
            folders are read in chunks, as is everything by default. Arrow and Feather files are
            always read whole.
        csv: How CSV files are read.
    """
    return read_small_table(path, memory, csv) or _open_chunked(path, csv)


def read_columns(path: str | Path, names: Sequence[str], csv: CsvOptions = AS_FOUND) -> pa.Table:
    """Read some columns of a file or folder whole."""
    opened = open_table(path, csv=csv)
    require_columns(opened.schema, names)
    return pa.concat_tables(
        [pa.table({}), *(chunk.table for chunk in opened.chunks(names))],
        promote_options="permissive",
    )


def read_small_table(
    path: str | Path, memory: int | None, csv: CsvOptions = AS_FOUND
) -> MemoryTable | None:
    """Read a file whole if it takes at most ``memory`` bytes in memory; otherwise return None.

    The result is None for folders, and if ``memory`` is None.
    """
    if memory is None or os.path.isdir(path):
        return None
    require_file(path)
    if is_csv(path):
        return read_csv(path, csv) if text_size(path) <= memory else None
    table = _open_chunked(path, csv)
    if table.nbytes > memory:
        return None
    return table if isinstance(table, MemoryTable) else MemoryTable(read_table(path), str(path))


def _open_chunked(path: str | Path, csv: CsvOptions) -> ChunkedTable:
    first = table_files(path)[0]
    if is_csv(first):
        return CsvTable.open(path, csv)
    if table_suffix(first) == ".parquet":
        return ParquetTable.open(path)
    return MemoryTable(read_table(path), str(path))


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table in the format that its suffix names; on failure an older file is kept."""
    require_writable_suffix(path)
    suffix = table_suffix(path)
    compression = "gzip" if suffix.endswith(".gz") else None
    with writing(path) as file, pa.output_stream(file, compression=compression) as stream:
        if suffix == ".parquet":
            pq.write_table(table, stream)
        elif suffix in CSV_SUFFIXES:
            options = pyarrow.csv.WriteOptions(delimiter="\t" if ".tsv" in suffix else ",")
            pyarrow.csv.write_csv(without_string_views(table), stream, options)
        else:
            # The format allows one dictionary per column, but each chunk may have its own.
            options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
            with pa.ipc.new_file(stream, table.schema, options=options) as writer:
                writer.write_table(table)


@contextmanager
def writing(path: str | Path) -> Iterator[str]:
    """Yield the name of a temporary file that becomes the file; on failure an older one is kept."""
    try:
        with atomic_write(path) as temporary:
            yield str(temporary)
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"The table cannot be written to {str(path)!r}: {error}") from error


def require_writable_suffix(path: str | Path) -> None:
    """Raise an error if ``write_table`` does not support the suffix of a file name."""
    if table_suffix(path).startswith(".txt"):
        raise TableError(
            f"A table that is not a text file cannot be written as one. Got {str(path)!r}; "
            "choose .csv or .tsv."
        )


def append_columns(table: pa.Table, columns: Mapping[str, Num[np.ndarray, " N"]]) -> pa.Table:
    """Append columns of numbers to a table."""
    require_new_names(table.column_names, list(columns))
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values.astype(np.float64)))
    return table
