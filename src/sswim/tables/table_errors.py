"""Errors about tables, and the names that they quote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from sswim.base.errors import UserError

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
