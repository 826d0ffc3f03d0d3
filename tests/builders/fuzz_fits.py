"""Random settings of tiny fits, and what must hold for every fit that is not refused."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from builders.fuzz_tables import Array, Table
from builders.fuzzing import count_fit, may_refuse
from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor, make_estimator
from sswim.warps import noise_field as noise_fit

PROBABILITIES = (1e-15, 1e-6, 0.05, 0.5, 0.95, 1 - 1e-6, 1 - 2e-15)

_NOTES = (
    r".*has a value",  # wild inputs and targets
    r".*is one and the same value",
    r"Column .* has (levels that the model has not learnt|values of several types)",
    r"Column .* (is|are|was|has|looks|holds)",
)
"""Beginnings of the warnings that the package gives about data."""

Settings = dict[str, Any]

_TINY: Settings = {"device": "cpu", "random_state": 0}


@pytest.fixture(autouse=True)
def two_noise_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learn noise in two steps, which are as many as the rest of a tiny fit has."""
    monkeypatch.setattr(noise_fit, "STEPS", 2)


def fit_settings() -> st.SearchStrategy[Settings]:
    """Return a strategy of the settings of one kind of members."""
    features = {
        "depth": st.integers(0, 2),
        "n_components": st.integers(1, 12),
        "n_pseudo": st.integers(1, 4),
        "warps": st.sampled_from(["joint", "separate"]),
        "inputs": st.sampled_from(["standardised", "standardised", "normal-scores"]),
        "kernel": st.sampled_from(["rbf", "matern12", "matern32", "matern52"]),
        "n_members": st.sampled_from([1, 1, 1, 2]),
        "output_warp": st.sampled_from(["none", "none", "sinh-arcsinh", "tanh"]),
        "n_output_terms": st.integers(1, 3),
        "noise": st.sampled_from(["constant", "constant", "input-dependent"]),
        "objective": st.sampled_from(["map", "evidence", "leave-one-out"]),
        "max_iter": st.sampled_from([0, 1, 2, 5]),
        "learning_rate": st.sampled_from(["auto", "auto", "auto", 1e-8, 1.0, 1e3]),
        "length_scale": st.sampled_from(["auto", "auto", "auto", 1e-6, 0.1, 1e6]),
        "dtype": st.sampled_from(["auto", "float32", "float64"]),
    }
    neighbours = {
        "n_neighbors": st.sampled_from([1, 3, 8, 30]),
        "local_amplitude": st.booleans(),
    }
    matrices = {
        "depth": st.integers(1, 2),
        "n_neighbors": st.sampled_from([0, 0, 3, 8]),
        "warp_matrix": st.sampled_from(["projected", "full"]),
        "warp_dim": st.sampled_from([None, 1, 2, 5]),
    }
    return st.one_of(
        st.fixed_dictionaries({**features, "growing": st.booleans()}),
        st.fixed_dictionaries({**features, **neighbours}),
        st.fixed_dictionaries({**features, **matrices}),
    )


@contextmanager
def only_notes() -> Iterator[None]:
    """Let the package warn about data, and make an error of every other warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for beginning in _NOTES:
            warnings.filterwarnings("ignore", beginning, UserWarning)
        yield


@contextmanager
def refusals(regressor: BaseRegressor) -> Iterator[None]:
    """Expect a refusal of data or settings, which must leave the estimator as it was."""
    before = dict(vars(regressor))
    with may_refuse(), only_notes():
        try:
            yield
        except (ValueError, FactorisationError) as error:
            after = vars(regressor)
            assert list(after) == list(before)
            assert all(after[name] is before[name] for name in before)
            if _is_from_scikit_learn(error) or _diverged(error, regressor):
                raise UserError(*error.args) from error
            raise


def fit(settings: Settings, X: Any, y: Array, **options: Any) -> BaseRegressor:
    """Fit an estimator, which may be refused."""
    regressor = make_estimator(**_made(settings))
    count_fit()
    with refusals(regressor):
        regressor.fit(X, y, **options)
    return regressor


def _made(settings: Settings) -> Settings:
    """Return settings that one estimator has: "auto" is its default, and 0 is no neighbours."""
    kept = {name: value for name, value in (_TINY | settings).items() if value != "auto"}
    if not kept.get("n_neighbors"):
        for name in ("n_neighbors", "local_amplitude"):
            kept.pop(name, None)
    else:
        kept.pop("growing", None)
        if kept.get("objective") == "leave-one-out":
            kept["objective"] = "evidence"  # both are the density without a prior
    return kept


def _is_from_scikit_learn(error: Exception) -> bool:
    """Return whether a check of scikit-learn raised an error; the package leaves some to it."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals["__name__"]).startswith("sklearn.")


def _diverged(error: Exception, regressor: BaseRegressor) -> bool:
    """Return whether a fit failed because its learning rate is absurd, and says so."""
    rate = getattr(regressor, "learning_rate", 0)
    return rate >= 1 and "ower the learning rate" in str(error)


def fit_table(settings: Settings, table: Table) -> BaseRegressor:
    """Fit an estimator to a table."""
    return fit(settings, table.rows(), table.y(), **table.options())


@contextmanager
def _may_overflow(regressor: BaseRegressor) -> Iterator[None]:
    """Expect a refusal of inputs whose numbers or variances are too large for single precision."""
    try:
        yield
    except UserError as error:
        if regressor.dtype != "float32" or "must be finite in float32" not in str(error):
            raise
        with may_refuse():
            raise


def require_sane(regressor: BaseRegressor, X: Any, y: Array, X_std: Any = None) -> None:
    """Check that predictions are finite, in order, and nested.

    Args:
        regressor: A fitted estimator.
        X: Inputs to predict.
        y: Targets of these inputs.
        X_std: Standard deviation of these inputs.
    """
    with only_notes(), _may_overflow(regressor):
        mixture = regressor.predict_distribution(X, X_std=X_std)
    targets = torch.as_tensor(y.reshape(len(y), -1), dtype=torch.float64)
    mean, std = mixture.mean, mixture.standard_deviation
    assert mean.shape == std.shape == targets.shape
    assert mean.isfinite().all(), mean
    assert std.isfinite().all(), std
    assert (std >= 0).all(), std
    quantiles = mixture.quantiles(PROBABILITIES)
    assert quantiles.isfinite().all(), quantiles
    assert (quantiles.diff(dim=-1) >= 0).all(), quantiles  # so intervals are nested
    without_noise = mixture.without_noise().quantiles((0.05, 0.95))
    assert without_noise.isfinite().all(), without_noise
    assert (without_noise.diff(dim=-1) >= 0).all(), without_noise
    at_most = mixture.cdf(targets)
    assert ((at_most >= 0) & (at_most <= 1)).all(), at_most
    density = mixture.log_density(targets)
    assert (density < torch.inf).all(), density  # −∞ only where a target is out of all bounds


def require_sane_fit(regressor: BaseRegressor, table: Table) -> None:
    """Check predictions of the rows of a table, and of new ones."""
    X_std = table.options().get("X_std")
    require_sane(regressor, table.rows(), table.y(), X_std)
    require_sane(regressor, table.rows(3, seed=1), table.y()[:1].repeat(3, axis=0))


def require_finite_draws(regressor: BaseRegressor, X: Any) -> None:
    """Check drawn functions and observations."""
    with only_notes(), _may_overflow(regressor):
        for include_noise in (False, True):
            draws = regressor.sample_y(X, 2, include_noise=include_noise)
            assert np.isfinite(draws).all(), draws


def all_predictions(regressor: BaseRegressor, X: Any) -> tuple[Array, ...]:
    """Return means, standard deviations and quantiles."""
    with only_notes(), _may_overflow(regressor):
        quantiles = regressor.predict_quantiles(X, (0.05, 0.5, 0.95))
        return *regressor.predict(X, return_std=True), quantiles


def require_same_bits(one: tuple[Array, ...], other: tuple[Array, ...]) -> None:
    """Check that predictions are equal to the last bit."""
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b), (a, b)


def require_close(one: tuple[Array, ...], other: tuple[Array, ...], tolerance: float) -> None:
    """Check that predictions are equal up to a share of the predicted standard deviation.

    Args:
        one: Means, standard deviations and others, as :func:`all_predictions` returns them.
        other: What they are compared with.
        tolerance: Largest distance, in units of the largest standard deviation of a target.
    """
    smallest = np.finfo(np.float64).tiny  # absurd rates can end in no spread at all
    unit = np.maximum(one[1].max(axis=0), smallest)
    for a, b in zip(one, other, strict=True):
        scale = unit[..., None] if a.ndim > one[1].ndim else unit
        worst = np.max(np.abs(a - b) / scale)
        assert worst <= tolerance, (worst, a, b)
