"""The rows of a table as the numbers that a model sees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from sswim.rows.gaussian_imputer import GaussianImputer


@dataclass(frozen=True)
class Encoded:
    """Inputs of rows, and how uncertain they are."""

    inputs: Float64[np.ndarray, "N D"]
    """Numbers; NaN where a value is missing, until they are imputed."""
    variance: Float64[np.ndarray, "N D"] | None = None
    """Variance of each input; None if all are known exactly."""

    def __len__(self) -> int:
        return len(self.inputs)


def impute(
    encoded: Encoded,
    imputer: GaussianImputer,
    indicators: Bool[np.ndarray, " D"] | None = None,
    certain: Bool[np.ndarray, " D"] | None = None,
) -> Encoded:
    """Fill in missing inputs, with the variance that this leaves.

    Args:
        encoded: Inputs, NaN where they are missing.
        imputer: Imputer of the inputs that are not indicators.
        indicators: Whether an input says that a value is missing; None if none does.
        certain: Whether an input that is filled in counts as known; None if none does.
    """
    if not np.isnan(encoded.inputs).any():
        return encoded
    values = slice(None) if indicators is None else ~indicators
    inputs = encoded.inputs.copy()
    filled, more = imputer.fill(inputs[:, values])
    inputs[:, values] = filled
    variance = np.zeros(inputs.shape)
    variance[:, values] = more
    if certain is not None:
        variance[:, certain] = 0.0
    if encoded.variance is not None:
        # The variance of a gap may be as large as a number can be.
        variance = np.minimum(variance, np.finfo(np.float64).max - encoded.variance)
        variance += encoded.variance
    return Encoded(inputs, variance if variance.any() else None)
