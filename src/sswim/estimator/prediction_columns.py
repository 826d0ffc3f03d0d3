"""The columns of predictions that are added to a table."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from sswim.base.validation import require_coverage
from sswim.estimator.regressor import SSWIMRegressor
from sswim.rows.encoded import Encoded

NAMES = ("mean", "std", "median", "lower", "upper")


def predicted_columns(
    regressor: SSWIMRegressor, inputs: Encoded | Float64[np.ndarray, "N D"], coverage: float
) -> dict[str, Float64[np.ndarray, " N"]]:
    """Predict the columns ``NAMES`` of rows.

    Args:
        regressor: A fitted estimator with one target.
        inputs: Inputs of the rows.
        coverage: Nominal coverage of the intervals from lower to upper.
    """
    require_coverage(coverage)
    mixture = regressor.predict_distribution(inputs)
    lower, upper = (mixture.quantile(0.5 * (1 + sign * coverage)) for sign in (-1, 1))
    deviation = mixture.standard_deviation
    values = (mixture.mean, deviation, mixture.quantile(0.5), lower, upper)
    return {name: each.cpu().numpy()[:, 0] for name, each in zip(NAMES, values, strict=True)}
