"""What is written of a prediction beside the row it is about."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from sswim.base.validation import require_coverage
from sswim.estimator.regressor import SSWIMRegressor

NAMES = ("mean", "std", "median", "lower", "upper")


def predicted_columns(
    regressor: SSWIMRegressor, inputs: Float64[np.ndarray, "N D"], coverage: float
) -> dict[str, Float64[np.ndarray, " N"]]:
    """Columns of all ``NAMES``, of a regressor of one target; features are computed once.

    Args:
        regressor: A fitted one.
        inputs: Of the rows.
        coverage: Of the intervals from lower to upper.
    """
    require_coverage(coverage)
    mixture = regressor._mixture(inputs, None)
    lower, upper = (mixture.quantile(0.5 * (1 + sign * coverage)) for sign in (-1, 1))
    deviation = mixture.observation_variance.sqrt()
    values = (mixture.mean, deviation, mixture.quantile(0.5), lower, upper)
    return {name: each.cpu().numpy()[:, 0] for name, each in zip(NAMES, values, strict=True)}
