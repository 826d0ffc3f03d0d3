"""Rows that cannot be used, because a value is missing or infinite."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from sswim.tables.missing_values import is_missing
from sswim.tables.table_io import TableError, quote_names


def require_usable(
    numbers: Int64[np.ndarray, " n"], table: pa.Table, file: str, scope: str = "all rows"
) -> None:
    """Raise an error that names the first row with a missing or infinite value, if there is one.

    Args:
        numbers: Numbers of the rows.
        table: Columns that are used.
        file: File that the rows come from.
        scope: What the rows are numbered within.
    """
    for is_bad, rule, got, advice in (
        (
            is_missing,
            "Every row must have a value in each column that is used",
            "none",
            "fill it in, or leave such rows out with --drop-missing",
        ),
        (
            _is_infinite,
            "Numbers must be finite",
            "an infinite one",
            "correct or remove such rows first",
        ),
    ):
        bad = np.stack([is_bad(column).to_numpy() for column in table.columns])
        if bad.any():
            row = int(bad.any(axis=0).argmax())
            names = [
                name for name, value in zip(table.column_names, bad[:, row], strict=True) if value
            ]
            raise TableError(
                f"{rule}. Got {got} in {quote_names(names)} in row {numbers[row] + 1:,} of "
                f"{scope}, counted from 1, which is in {file!r}; {advice}."
            )


def _is_infinite(values: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_floating(values.type):
        return pc.is_inf(values.cast(pa.float64()))
    return pa.chunked_array([pa.repeat(False, len(values))])
