"""Reading and writing tables: Parquet, CSV and Arrow files."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from jaxtyping import Num

from sswim.files.output_files import atomic_write
from sswim.tables.arrow_types import (
    TableError,
    quote_names,
    reading,
    require_shape,
    without_string_view,
)
from sswim.tables.csv_dialect import AS_FOUND, CSV_SUFFIXES, CsvOptions
from sswim.tables.csv_file import read_csv

SUFFIXES = (".parquet", *CSV_SUFFIXES, ".arrow", ".feather")

__all__ = [
    "TableError",
    "append_columns",
    "has_table_suffix",
    "quote_names",
    "read_table",
    "reading",
    "require_columns",
    "require_file",
    "require_new_names",
    "require_shape",
    "require_unique",
    "require_writable_suffix",
    "table_suffix",
    "without_string_views",
    "write_table",
]


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
    with reading(path, suffix):
        table = _read(str(path), suffix)
        table.validate(full=True)  # Arrow does not check content by itself, and may crash.
        table = without_string_views(table)
        names = table.column_names
    require_shape(table.num_rows, table.num_columns, path)
    require_unique(names, path)
    return table


def require_file(path: str | Path) -> None:
    """Raise unless a path is a file."""
    if not os.path.isfile(path):
        got = "a folder" if os.path.isdir(path) else "which cannot be found"
        raise TableError(f"A table must be a file that exists. Got {str(path)!r}, {got}.")


def require_unique(names: Sequence[str], path: str | Path) -> None:
    """Raise an error if two columns have the same name."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise TableError(
            f"Column names must be unique. Got several {quote_names(repeated)} in {str(path)!r}."
        )


def require_columns(schema: pa.Schema, names: Collection[str]) -> None:
    """Raise unless a table has all of the columns."""
    present = schema.names
    known = set(present)
    if absent := [name for name in names if name not in known]:
        folded = {name.casefold(): name for name in present}
        matches = [difflib.get_close_matches(name.casefold(), folded) for name in absent]
        close = [folded[match] for each in matches for match in each]
        # Without a close name, all names: they show if a file has another separator.
        hint = f"close to it: {quote_names(close)}" if close else f"it has {quote_names(present)}"
        raise TableError(
            f"The table must have columns {quote_names(absent)}. Got none such; {hint}."
        )


def write_table(table: pa.Table, path: str | Path) -> None:
    """Write a table in the format that its suffix names; on failure an older file is kept."""
    require_writable_suffix(path)
    suffix = table_suffix(path)
    try:
        with atomic_write(path) as temporary:
            _write(table, str(temporary), suffix)
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"The table cannot be written to {str(path)!r}: {error}") from error


def require_writable_suffix(path: str | Path) -> None:
    """Raise an error if ``write_table`` does not support the suffix of a file name."""
    if table_suffix(path).startswith(".txt"):
        raise TableError(
            f"A table that is not a text file cannot be written as one. Got {str(path)!r}; "
            "choose .csv or .tsv."
        )


def require_new_names(names: Collection[str], new: Sequence[str]) -> None:
    """Raise an error if names of new columns are taken."""
    if taken := [name for name in new if name in names]:
        raise TableError(
            f"New columns must have new names. Got {quote_names(taken)}, which the table already "
            "has; choose other names with --prefix."
        )


def append_columns(table: pa.Table, columns: Mapping[str, Num[np.ndarray, " N"]]) -> pa.Table:
    """Append columns of numbers to a table."""
    require_new_names(table.column_names, list(columns))
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values.astype(np.float64)))
    return table


def without_string_views(table: pa.Table) -> pa.Table:
    """Convert string views, Polars's text type, which Arrow can neither filter nor write as CSV."""
    fields = [field.with_type(without_string_view(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def has_table_suffix(path: str | Path) -> bool:
    """Return whether a file name is that of a table."""
    return Path(path).name.lower().endswith(SUFFIXES)


def table_suffix(path: str | Path) -> str:
    """Return the suffix of a file name, in lower case; raise an error if it is not supported."""
    for suffix in SUFFIXES:
        if Path(path).name.lower().endswith(suffix):
            return suffix
    raise TableError(f"A table's file name must end in {', '.join(SUFFIXES)}. Got {str(path)!r}.")


def _read(file: str, suffix: str) -> pa.Table:
    with pa.OSFile(file) as stream:
        if suffix == ".parquet":
            # Unlike pq.read_table, this does not turn folder names into columns.
            return pq.ParquetFile(stream).read()
        is_file = stream.read(6) == b"ARROW1"
        stream.seek(0)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(stream).read_all()


def _write(table: pa.Table, file: str, suffix: str) -> None:
    with pa.output_stream(file, compression="gzip" if suffix.endswith(".gz") else None) as stream:
        if suffix == ".parquet":
            pq.write_table(table, stream)
        elif suffix in CSV_SUFFIXES:
            separator = "\t" if suffix.startswith(".tsv") else ","
            options = pyarrow.csv.WriteOptions(delimiter=separator)
            pyarrow.csv.write_csv(without_string_views(table), stream, options)
        else:
            # The format allows one dictionary per column, but each chunk may have its own.
            options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
            with pa.ipc.new_file(stream, table.schema, options=options) as writer:
                writer.write_table(table)
