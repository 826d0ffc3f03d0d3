"""Tests whether an object is a data frame; they do not import pandas, polars or the like."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np


def is_frame(X: Any) -> bool:
    """Return whether an object is a data frame or a table: of pandas, polars, Arrow and others."""
    return is_pandas(X) or (hasattr(X, "__arrow_c_stream__") and not hasattr(X, "dtype"))


def is_pandas(X: Any) -> bool:
    """Return whether an object is a data frame of pandas."""
    return _is_a(X, "DataFrame", "pandas")


def is_geo_frame(X: Any) -> bool:
    """Return whether an object is a data frame of geopandas."""
    return _is_a(X, "GeoDataFrame", "geopandas")


def _is_a(X: Any, name: str, library: str) -> bool:
    return any(
        kind.__name__ == name and kind.__module__.split(".")[0] == library
        for kind in type(X).__mro__
    )


def is_missing(value: Any) -> bool:
    """Return whether a Python object stands for a missing value: None, NaN, NaT or NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    # Only missing numbers and times differ from themselves.
    return isinstance(value, float | Decimal | np.generic) and bool(value != value)  # noqa: PLR0124
