from __future__ import annotations

import numpy as np
import pytest

from sswim.estimator import make_estimator
from sswim.estimator.table_prediction import NAMES, predicted_columns


def test_columns_are_what_the_regressor_predicts() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 2))
    y = np.exp(x[:, 0]) + 0.1 * random.normal(size=40)
    regressor = make_estimator(
        depth=1,
        n_components=16,
        n_pseudo=4,
        n_members=2,
        max_iter=3,
        output_warp="sinh-arcsinh",
        device="cpu",
        random_state=0,
    ).fit(x, y)
    columns = predicted_columns(regressor, x, 0.8)
    assert tuple(columns) == NAMES
    mean, std = regressor.predict(x, return_std=True)
    lower, upper = regressor.predict_interval(x, 0.8)
    median = regressor.predict_quantiles(x, 0.5)[:, 0]
    for ours, theirs in zip(columns.values(), (mean, std, median, lower, upper), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        predicted_columns(regressor, x, 1.0)
