"""Missing values of tables: nulls and NaNs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool

from sswim.tables.table_io import TableError, require_columns, without_string_views

TELLING_ROWS = 20
"""Fewest rows without a value from which the model learns what a missing value means."""
TELLING_SHARE = 0.01
"""Smallest share of such rows."""


def is_missing(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return whether each value is null or NaN."""
    return pc.is_null(values, nan_is_null=True)


def is_telling(n_missing: int, n_rows: int) -> bool:
    """Return whether a column is so often missing that this becomes an input of its own.

    What few rows say of missing values does more harm than good (``benchmarks/missing_cells.py``).
    """
    return n_missing >= max(TELLING_ROWS, TELLING_SHARE * n_rows)


def missing_counts(table: pa.Table, names: Collection[str]) -> dict[str, int]:
    """Count the missing values of columns; columns without any are left out."""
    require_columns(table.schema, names)
    counts = {name: pc.sum(is_missing(table.column(name))).as_py() or 0 for name in names}
    return {name: count for name, count in counts.items() if count}


def require_any_complete(n_kept: int, table: pa.Table, names: Collection[str]) -> None:
    """Raise an error if no row is kept.

    Args:
        n_kept: Number of rows that are kept.
        table: All rows.
        names: Columns that a row must have a value in to be kept.
    """
    if not n_kept:
        raise TableError(
            "At least one row must be complete. Got missing values in "
            f"{_describe(missing_counts(table, names))}, in all of the rows together; leave out "
            "the emptiest of these columns with --drop."
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


def _describe(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name!r} ({count} rows)" for name, count in counts.items())
