"""The columns of predictions that are added to a table."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from sswim.base.validation import require_coverage
from sswim.estimator.finite_predictions import finite
from sswim.estimator.interval_methods import IntervalMethod
from sswim.estimator.regressor import SSWIMRegressor
from sswim.rows.encoded import Encoded

NAMES = ("mean", "std", "median", "lower", "upper")


def predicted_columns(
    regressor: SSWIMRegressor,
    inputs: Encoded | Float64[np.ndarray, "N D"],
    coverage: float,
    method: IntervalMethod = "model",
) -> dict[str, Float64[np.ndarray, " N"]]:
    """Predict the columns ``NAMES`` of rows.

    Args:
        regressor: A fitted estimator with one target.
        inputs: Inputs of the rows.
        coverage: Nominal coverage of the intervals from lower to upper.
        method: Whether median, lower and upper are the model's, or conformal.
    """
    require_coverage(coverage)
    mixture = regressor.predict_distribution(inputs)
    levels = [0.5, 0.5 * (1 - coverage), 0.5 * (1 + coverage)]
    if method == "model":
        quantiles = finite(mixture.quantiles(levels))[:, 0].cpu().numpy()
    else:
        found = regressor.predict_quantiles(inputs, levels, method=method)
        quantiles = found.reshape(-1, len(levels))
    moments = (mixture.mean, mixture.standard_deviation)
    columns = (finite(each).cpu().numpy()[:, 0] for each in moments)
    return dict(zip(NAMES, (*columns, *quantiles.T), strict=True))
