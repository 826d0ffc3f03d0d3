"""Rows that cannot be used, because a number is infinite."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from sswim.tables.table_io import TableError, quote_names


def require_finite(
    numbers: Int64[np.ndarray, " n"], table: pa.Table, file: str, scope: str = "all rows"
) -> None:
    """Raise an error that names the first row with an infinite number, if there is one.

    Args:
        numbers: Numbers of the rows.
        table: Columns that are used.
        file: File that the rows come from.
        scope: What the rows are numbered within.
    """
    bad = np.stack([_is_infinite(column).to_numpy() for column in table.columns])
    if bad.any():
        row = int(bad.any(axis=0).argmax())
        names = [name for name, each in zip(table.column_names, bad[:, row], strict=True) if each]
        raise TableError(
            f"Numbers must be finite. Got an infinite one in {quote_names(names)} in row "
            f"{numbers[row] + 1:,} of {scope}, counted from 1, which is in {file!r}; correct or "
            "remove such rows first."
        )


def _is_infinite(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_floating(values.type):
        return pc.fill_null(pc.is_inf(values.cast(pa.float64())), False)
    return pa.chunked_array([pa.repeat(False, len(values))])
