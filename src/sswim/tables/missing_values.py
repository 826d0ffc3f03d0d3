"""Missing values of tables: nulls and NaNs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from sswim.tables.table_io import TableError, require_columns, without_string_views


def is_missing(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each value is null or NaN."""
    return pc.is_null(values, nan_is_null=True)


def missing_counts(table: pa.Table, names: Collection[str]) -> dict[str, int]:
    """Count the missing values of columns; columns without any are left out."""
    require_columns(table.schema, names)
    counts = {name: pc.sum(is_missing(table.column(name))).as_py() or 0 for name in names}
    return {name: count for name, count in counts.items() if count}


def require_complete(table: pa.Table, names: Collection[str]) -> None:
    """Raise an error if any of the columns has a missing value."""
    if counts := missing_counts(table, names):
        raise TableError(
            "Every row must have a value in each column that is used. Got missing values in "
            f"{_describe(counts)}; fill them in, or leave such rows out with --drop-missing."
        )


def require_any_complete(n_complete: int, counts: Mapping[str, int]) -> None:
    """Raise an error if no row is complete.

    Args:
        n_complete: Number of rows without missing values.
        counts: Missing values of each column, for the error message.
    """
    if not n_complete:
        raise TableError(
            f"At least one row must be complete. Got missing values in {_describe(counts)}, in all "
            "of the rows together; leave out the emptiest of these columns with --drop."
        )


def complete_rows(table: pa.Table, names: Collection[str]) -> Bool[np.ndarray, " N"]:
    """Return whether each row has a value in all of the columns."""
    complete = np.ones(table.num_rows, dtype=bool)
    for name in missing_counts(table, names):
        complete &= ~is_missing(table.column(name)).to_numpy()
    return complete


def keep_rows(table: pa.Table, kept: Bool[np.ndarray, " N"]) -> pa.Table:
    """Return the rows where ``kept`` is true."""
    table = without_string_views(table)
    try:
        return table if kept.all() else table.filter(pa.array(kept))
    except pa.ArrowNotImplementedError as error:  # string views inside lists
        raise TableError(f"Rows of this table cannot be left out: {error}") from error


def drop_incomplete_rows(
    table: pa.Table, names: Collection[str]
) -> tuple[pa.Table, Bool[np.ndarray, " N"]]:
    """Return the rows that have a value in all of the columns, and the mask of these rows."""
    complete = complete_rows(table, names)
    require_any_complete(int(complete.sum()), missing_counts(table, names))
    return keep_rows(table, complete), complete


def select_complete(
    table: pa.Table, names: Collection[str], *, drop_missing: bool
) -> tuple[pa.Table, int]:
    """Return the rows that have a value in all of the columns, and how many rows were left out.

    Without ``drop_missing``, raise an error if any row would be left out.
    """
    if not drop_missing:
        require_complete(table, names)
        return table, 0
    complete, kept = drop_incomplete_rows(table, names)
    return complete, int((~kept).sum())


def _describe(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({count} rows)" for name, count in counts.items())
