"""The median and the width of a column: how far apart its middle values are."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

_WIDTHS = ((0.25, 0.75), (0.1, 0.9), (0.01, 0.99))
"""Quantiles whose distance is the width of a column: of the first pair that are not equal."""

_LARGEST = float(np.finfo(np.float64).max)


def column_width(values: Float64[np.ndarray, " N"]) -> float | None:
    """Return the width of a column without missing values; None if almost all are equal.

    Unlike the standard deviation it does not grow with a few values far away.
    """
    quarters = 0.25 * values  # of the largest numbers, too, the differences are numbers
    for lower, upper in _WIDTHS:
        width = float(np.quantile(quarters, upper) - np.quantile(quarters, lower))
        if width > 0:
            return min(4 * width, _LARGEST)
    return None


def column_median(values: Float64[np.ndarray, " N"]) -> float:
    """Return the median of a column without missing values, also of the largest numbers."""
    return 4 * float(np.median(0.25 * values))
