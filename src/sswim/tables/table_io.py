"""Tables in files: Parquet, CSV and Arrow."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from jaxtyping import Num

from sswim.base.files import atomic_write

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".arrow", ".feather")


class TableError(ValueError):
    """A table that cannot be used, for a reason its owner can do something about."""


def read_table(path: str | Path) -> pa.Table:
    """Read a table, in the format its suffix names.

    In CSV an empty cell is a missing value, of text as well as of numbers, and so is NA or NaN.
    """
    require_file(path)
    suffix = table_suffix(path)
    with reading(path, suffix):
        table = _read(str(path), suffix)
        table.validate(full=True)  # Arrow takes the content on trust, and could crash on it later.
        table = without_views(table)
        names = table.column_names
    require_shape(table.num_rows, table.num_columns, path)
    require_unique(names, path)
    return table


def require_file(path: str | Path) -> None:
    """Refuse a path that is no file."""
    if not os.path.isfile(path):
        got = "a folder" if os.path.isdir(path) else "which cannot be found"
        raise TableError(f"A table must be a file that exists. Got {str(path)!r}, {got}.")


@contextmanager
def reading(path: str | Path, form: str) -> Iterator[None]:
    """Name the file, and the form it was to have, if it cannot be read."""
    try:
        yield
    except TableError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TableError(f"{str(path)!r} cannot be read as {form}: {str(error).strip()}") from error


def require_shape(n_rows: int, n_columns: int, path: str | Path) -> None:
    """Refuse a table without anything in it."""
    if 0 in (n_rows, n_columns):
        raise TableError(
            f"A table must have at least one row and one column. Got {n_rows} rows and "
            f"{n_columns} columns in {str(path)!r}."
        )


def require_unique(names: Sequence[str], path: str | Path) -> None:
    """Refuse columns of the same name."""
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise TableError(
            f"Column names must be unique. Got several {quote_names(twice)} in {str(path)!r}."
        )


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table, in the format its suffix names; on failure what was there stays."""
    suffix = table_suffix(path)
    try:
        with atomic_write(path) as temporary:
            _write(table, str(temporary), suffix)
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"The table cannot be written to {str(path)!r}: {error}") from error


def require_writable_suffix(path: str | Path) -> None:
    """Refuse a file name whose suffix write_table would refuse."""
    table_suffix(path)


def append_columns(table: pa.Table, columns: Mapping[str, Num[np.ndarray, " N"]]) -> pa.Table:
    """Add columns of numbers at the end."""
    if taken := [name for name in columns if name in table.column_names]:
        raise TableError(
            f"New columns must have new names. Got {quote_names(taken)}, which the table has already; "
            "choose other names with --prefix."
        )
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values.astype(np.float64)))
    return table


def without_views(table: pa.Table) -> pa.Table:
    """Replace Polars's type of text, which Arrow can neither filter nor write as CSV."""
    fields = [field.with_type(without_view(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def without_view(dtype: pa.DataType) -> pa.DataType:
    """The same for one type."""
    if pa.types.is_dictionary(dtype):
        return pa.dictionary(dtype.index_type, without_view(dtype.value_type), dtype.ordered)
    return pa.large_string() if pa.types.is_string_view(dtype) else dtype


def quote_names(values: Sequence[str], most: int = 5) -> str:
    """The first few of many names, for a message."""
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return ", ".join(repr(value) for value in values[:most]) + more


def table_suffix(path: str | Path) -> str:
    """Which of the known suffixes a file name has."""
    for suffix in SUFFIXES:
        if Path(path).name.lower().endswith(suffix):
            return suffix
    raise TableError(f"A table's file name must end in {', '.join(SUFFIXES)}. Got {str(path)!r}.")


def csv_text(path: str, suffix: str) -> pa.NativeFile:
    """Open the text of a CSV file, which may be compressed."""
    stream = pa.OSFile(path)
    return pa.CompressedInputStream(stream, "gzip") if suffix == ".csv.gz" else stream


def csv_options(**conversion: Any) -> dict[str, Any]:
    """How cells are told apart and what they mean, for any reader of CSV; and more about it."""
    return {
        "parse_options": pyarrow.csv.ParseOptions(newlines_in_values=True),
        "convert_options": pyarrow.csv.ConvertOptions(strings_can_be_null=True, **conversion),
    }


def _read(file: str, suffix: str) -> pa.Table:
    if suffix.startswith(".csv"):
        with csv_text(file, suffix) as text:
            return pyarrow.csv.read_csv(text, **csv_options())
    with pa.OSFile(file) as stream:
        if suffix == ".parquet":
            # Unlike pq.read_table, this makes no columns of the names of folders.
            return pq.ParquetFile(stream).read()
        is_file = stream.read(6) == b"ARROW1"
        stream.seek(0)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(stream).read_all()


def _write(table: pa.Table, file: str, suffix: str) -> None:
    with pa.output_stream(file, compression="gzip" if suffix == ".csv.gz" else None) as stream:
        if suffix == ".parquet":
            pq.write_table(table, stream)
        elif suffix.startswith(".csv"):
            pyarrow.csv.write_csv(without_views(table), stream)
        else:
            # The format has room for one dictionary per column, but each chunk may have its own.
            options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
            with pa.ipc.new_file(stream, table.schema, options=options) as writer:
                writer.write_table(table)
