"""Numbers that are very large or small: predictions are finite and ordered, or refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from builders.estimators import Array, make_rows, small

from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor

X, Y = make_rows(16)
TINY: dict[str, Any] = {"n_components": 8, "n_pseudo": 3, "max_iter": 2}
MODELS: dict[str, dict[str, Any]] = {
    "stationary": {"depth": 0},
    "warped": {"depth": 1, "output_warp": "sinh-arcsinh"},
    "normal scores": {"depth": 1, "inputs": "normal-scores"},
    "neighbours": {"depth": 1, "n_neighbors": 4},
}
PROBABILITIES = (1e-15, 1e-6, 0.05, 0.5, 0.95, 1 - 1e-6, 1 - 2e-15)


def require_sane(regressor: BaseRegressor, x: Any, y: Array, X_std: Any = None) -> None:
    """Check that predictions are finite, intervals and quantiles ordered, and cdf monotone."""
    mean, std = regressor.predict(x, return_std=True, X_std=X_std)
    assert np.isfinite([mean, std]).all()
    assert (std > 0).all()
    quantiles = regressor.predict_quantiles(x, PROBABILITIES, X_std=X_std)
    assert np.isfinite(quantiles).all()
    assert (np.diff(quantiles, axis=-1) >= 0).all()
    for coverage in (1e-16, 0.9, 1 - 3e-15):
        lower, upper = regressor.predict_interval(x, coverage, X_std=X_std)
        assert np.isfinite([lower, upper]).all()
        assert (lower <= upper).all()
    values = np.sort(np.r_[np.linspace(y.min(), y.max(), 5), -1e300, 0.0, 1e300])
    cdf = np.array([regressor.cdf(x, np.full(len(mean), value), X_std=X_std) for value in values])
    assert ((cdf >= 0) & (cdf <= 1)).all()
    assert (np.diff(cdf, axis=0) >= -1e-15).all()


def fit(model: dict[str, Any], x: Any, y: Array, **options: Any) -> BaseRegressor:
    """Fit a tiny model; warnings about wild values are right."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return small(**(TINY | model)).fit(x, y, **options)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_extreme_inputs_are_predicted(model: dict[str, Any]) -> None:
    regressor = fit(model, X, Y)
    far = X.copy()
    far[3, 0], far[4] = 1e300, -1.7e308
    require_sane(regressor, far, Y)
    constant = X.copy()
    constant[:, 1] = 1e300
    for inputs in (1e300 * X, 1e-300 * X, constant):
        require_sane(fit(model, inputs, Y), inputs, Y)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_inputs_that_are_hardly_known_are_predicted(model: dict[str, Any]) -> None:
    require_sane(fit(model, X, Y), X, Y, X_std=1e150)
    require_sane(fit(model, X, Y, X_std=1e150), X, Y)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
def test_extreme_targets_are_predicted(model: dict[str, Any], scale: float) -> None:
    require_sane(fit(model, X, scale * Y), X, scale * Y)
    require_sane(fit(model, X, np.full(16, scale)), X, Y)


def test_numbers_that_cannot_be_are_refused() -> None:
    regressor = fit({}, X, Y)
    with pytest.raises(UserError, match=r"Targets must not exceed 1e.280.*divide y by a constant"):
        fit({}, X, 1e300 * Y)
    with pytest.raises(UserError, match=r"must be in the units of those of fit. Got one that is"):
        regressor.partial_fit(X, 1e200 * Y)
    with pytest.raises(UserError, match=r"largest weight must be at most 1e.100 times"):
        fit({}, X, Y, sample_weight=np.r_[1e-200, np.full(15, 1e200)])
    with pytest.raises(UserError, match="level must leave tails"):
        regressor.predict_interval(X, 1 - 1e-16)
    for probability in (1e-300, 1 - 1e-16):
        with pytest.raises(UserError, match="probabilities must leave tails"):
            regressor.predict_quantiles(X, [0.5, probability])
    with pytest.raises(UserError, match="A covariance must be finite"):
        fit({}, X, 1e200 * Y).predict(X, return_cov=True)
