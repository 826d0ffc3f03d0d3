"""The types of Arrow that tables have, and the kinds of columns they make.

Errors about tables, and the names that they quote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from sswim.base.validation import UserError

MAX_QUOTED = 5
"""Maximum number of names that a message quotes."""


class TableError(UserError):
    """A table that cannot be used, for a reason that the user can correct."""


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


def quote_names(names: Sequence[str]) -> str:
    """Return the first few names in quotes, for a message."""
    more = f" and {len(names) - MAX_QUOTED} more" if len(names) > MAX_QUOTED else ""
    return ", ".join(repr(name) for name in names[:MAX_QUOTED]) + more


Kind = Literal["number", "time", "category"]
KIND_WORDS: dict[Kind, str] = {"number": "numbers", "time": "dates or times", "category": "text"}


def without_string_view(dtype: pa.DataType) -> pa.DataType:
    """Return ``large_string`` for a string view, and any other type as it is."""
    if pa.types.is_dictionary(dtype):
        return pa.dictionary(dtype.index_type, without_string_view(dtype.value_type), dtype.ordered)
    return pa.large_string() if pa.types.is_string_view(dtype) else dtype


def is_text(dtype: pa.DataType) -> bool:
    """Return whether a column holds plain text, which may turn out to be numbers or times."""
    return (
        pa.types.is_string(dtype)
        or pa.types.is_large_string(dtype)
        or pa.types.is_string_view(dtype)
    )


def kind_of(dtype: pa.DataType) -> Kind | None:
    """Return the kind of column that an Arrow type makes, or None if it cannot be an input.

    Text may turn out to be of another kind when its values are read.
    """
    types = pa.types
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_boolean(dtype):
        return "number"
    if types.is_decimal(dtype) or types.is_duration(dtype):
        return "number"
    if types.is_date(dtype) or types.is_timestamp(dtype) or types.is_time(dtype):
        return "time"
    if types.is_dictionary(dtype):
        values = dtype.value_type
        return "category" if types.is_null(values) or kind_of(values) else None
    return "category" if is_text(dtype) else None


def require_kind(name: str, dtype: pa.DataType, kind: Kind) -> None:
    """Raise unless a type is of a kind; any kind with an order of values can be a category."""
    found = kind_of(dtype)
    if pa.types.is_timestamp(dtype) and dtype.tz is not None:
        _require_known_zone(name, dtype)
    if pa.types.is_null(dtype) or found == kind or (kind == "category" and found is not None):
        return
    raise TableError(f"Column {name!r} must hold {KIND_WORDS[kind]}. Got type {dtype}.")


def _require_known_zone(name: str, dtype: pa.DataType) -> None:
    try:
        pc.local_timestamp(pa.array([0], dtype))
    except pa.ArrowInvalid as error:
        raise TableError(
            f"The time zone of column {name!r} must be known. Got {dtype.tz!r}; convert the column "
            "to another zone, or to UTC."
        ) from error
