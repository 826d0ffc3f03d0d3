"""Inputs at which a report evaluates a model: grids over columns of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float64

from sswim.report.rows import ReportRows


def column_grid(values: Float64[np.ndarray, " N"], n_points: int) -> Float64[np.ndarray, " n"]:
    """Return evenly spaced points over the range of numbers; a constant has a range around it."""
    known = values[np.isfinite(values)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    return np.linspace(low, high, n_points)


def predict_frame(rows: ReportRows, values: Sequence[Float64[np.ndarray, " n"]]) -> Any:
    """Return values of all columns of numbers in the form in which the model reads rows."""
    if isinstance(rows.inputs, pa.Table):
        names = [column.name for column in rows.columns]
        return pa.table(dict(zip(names, values, strict=True)))
    return np.column_stack(values)
