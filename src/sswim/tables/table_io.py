"""Reading and writing tables: Parquet, CSV and Arrow files."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from jaxtyping import Num

from sswim.base.errors import UserError
from sswim.base.files import atomic_write

SUFFIXES = (".parquet", ".csv", ".csv.gz", ".arrow", ".feather")

MAX_QUOTED = 5
"""Maximum number of names that a message quotes."""


class TableError(UserError):
    """A table that cannot be used, for a reason that the user can correct."""


def read_table(path: str | Path) -> pa.Table:
    """Read a table in the format that its suffix names.

    In CSV an empty cell is a missing value, in text and number columns alike; so are NA and NaN.
    """
    require_file(path)
    suffix = table_suffix(path)
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


@contextmanager
def reading(path: str | Path, expected: str) -> Iterator[None]:
    """Turn errors of the body into a TableError that names the file and the expected format."""
    try:
        yield
    except TableError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        raise TableError(
            f"{str(path)!r} cannot be read as {expected}: {str(error).strip()}"
        ) from error


def require_shape(n_rows: int, n_columns: int, path: str | Path) -> None:
    """Raise an error if a table has no rows or no columns."""
    if 0 in (n_rows, n_columns):
        raise TableError(
            f"A table must have at least one row and one column. Got {n_rows} rows and "
            f"{n_columns} columns in {str(path)!r}."
        )


def require_unique(names: Sequence[str], path: str | Path) -> None:
    """Raise an error if two columns have the same name."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise TableError(
            f"Column names must be unique. Got several {quote_names(repeated)} in {str(path)!r}."
        )


def require_columns(schema: pa.Schema, names: Collection[str]) -> None:
    """Raise unless a table has all of the columns."""
    present = schema.names
    if absent := [name for name in names if name not in present]:
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
    suffix = table_suffix(path)
    try:
        with atomic_write(path) as temporary:
            _write(table, str(temporary), suffix)
    except (OSError, pa.ArrowException) as error:
        raise TableError(f"The table cannot be written to {str(path)!r}: {error}") from error


def require_writable_suffix(path: str | Path) -> None:
    """Raise an error if ``write_table`` does not support the suffix of a file name."""
    table_suffix(path)


def append_columns(table: pa.Table, columns: Mapping[str, Num[np.ndarray, " N"]]) -> pa.Table:
    """Append columns of numbers to a table."""
    if taken := [name for name in columns if name in table.column_names]:
        raise TableError(
            f"New columns must have new names. Got {quote_names(taken)}, which the table already "
            "has; choose other names with --prefix."
        )
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values.astype(np.float64)))
    return table


def without_string_views(table: pa.Table) -> pa.Table:
    """Convert string views, Polars's text type, which Arrow can neither filter nor write as CSV."""
    fields = [field.with_type(without_string_view(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields, table.schema.metadata))


def without_string_view(dtype: pa.DataType) -> pa.DataType:
    """Return ``large_string`` for a string view, and any other type as it is."""
    if pa.types.is_dictionary(dtype):
        return pa.dictionary(dtype.index_type, without_string_view(dtype.value_type), dtype.ordered)
    return pa.large_string() if pa.types.is_string_view(dtype) else dtype


def quote_names(names: Sequence[str]) -> str:
    """Return the first few names in quotes, for a message."""
    more = f" and {len(names) - MAX_QUOTED} more" if len(names) > MAX_QUOTED else ""
    return ", ".join(repr(name) for name in names[:MAX_QUOTED]) + more


def table_suffix(path: str | Path) -> str:
    """Return the suffix of a file name, in lower case; raise an error if it is not supported."""
    for suffix in SUFFIXES:
        if Path(path).name.lower().endswith(suffix):
            return suffix
    raise TableError(f"A table's file name must end in {', '.join(SUFFIXES)}. Got {str(path)!r}.")


def csv_text(path: str, suffix: str) -> pa.NativeFile:
    """Open a CSV file, compressed or not, as a stream of text."""
    stream = pa.OSFile(path)
    return pa.CompressedInputStream(stream, "gzip") if suffix == ".csv.gz" else stream


def csv_options(**conversion: Any) -> dict[str, Any]:
    """Return the options that all CSV readers use, with further conversion options."""
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
            # Unlike pq.read_table, this does not turn folder names into columns.
            return pq.ParquetFile(stream).read()
        is_file = stream.read(6) == b"ARROW1"
        stream.seek(0)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(stream).read_all()


def _write(table: pa.Table, file: str, suffix: str) -> None:
    with pa.output_stream(file, compression="gzip" if suffix == ".csv.gz" else None) as stream:
        if suffix == ".parquet":
            pq.write_table(table, stream)
        elif suffix.startswith(".csv"):
            pyarrow.csv.write_csv(without_string_views(table), stream)
        else:
            # The format allows one dictionary per column, but each chunk may have its own.
            options = pa.ipc.IpcWriteOptions(unify_dictionaries=True)
            with pa.ipc.new_file(stream, table.schema, options=options) as writer:
                writer.write_table(table)
