"""A small version of the default: an ensemble of kinds, with every method of the estimator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.estimators import few_noise_steps  # noqa: F401 (for every test here)
from scipy import stats

from sswim import load
from sswim.ensemble import Recipe
from sswim.ensemble.plan import KINDS
from sswim.estimator import BaseRegressor, make_estimator

Array = np.ndarray[Any, Any]
BY_FEATURES = Recipe(kinds=("features-1", "features-2"))
slow = pytest.mark.slow


def small(**changes: Any) -> BaseRegressor:
    settings: dict[str, Any] = {"n_components": 16, "n_pseudo": 4, "max_iter": 4, "random_state": 0}
    return make_estimator(**(settings | {"device": "cpu"} | changes))


def make_rows(n: int = 90, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    x = np.column_stack((random.uniform(-2, 2, n), random.lognormal(size=n)))
    return x, np.sin(2 * x[:, 0]) + np.log(x[:, 1]) + 0.1 * random.normal(size=n)


@pytest.fixture(scope="module")
def rows() -> tuple[Array, Array]:
    return make_rows()


@pytest.fixture(scope="module")
def fitted(rows: tuple[Array, Array]) -> BaseRegressor:
    return small().fit(*rows)


@pytest.fixture(scope="module")
def single(rows: tuple[Array, Array]) -> BaseRegressor:
    """An ensemble with one member of each kind."""
    return small(n_members=1).fit(*rows)


def test_kinds_by_features_and_by_neighbours_are_combined(fitted: BaseRegressor) -> None:
    architectures = [member.model.architecture for member in fitted.members_]
    assert [each.depth for each in architectures] == [1] * 3 + [2] * 3 + [0] * 6 + [1] * 3
    assert [each.n_neighbors > 0 for each in architectures] == [False] * 6 + [True] * 9
    assert fitted.weights_.shape == (15,)
    assert fitted.weights_.sum() == pytest.approx(1)
    assert (fitted.weights_ > 0).all()
    assert [len(values) - 1 for values in fitted.history_] == [4] * 15
    assert fitted.n_iter_ == 4
    assert [kind.name for kind in fitted.kinds_] == list(KINDS)
    assert [kind.n_members for kind in fitted.kinds_] == [1] + [3] * 5
    # The mean of all rows does not lower the error.
    assert [kind.weight > 0 for kind in fitted.kinds_] == [False] + [True] * 5


def test_predictions_of_every_kind(fitted: BaseRegressor, rows: tuple[Array, Array]) -> None:
    x, y = rows
    mean, std = fitted.predict(x, return_std=True)
    _, covariance = fitted.predict(x[:5], return_cov=True)
    assert np.allclose(np.sqrt(np.diag(covariance)), std[:5], rtol=1e-6)
    _, uncertain = fitted.predict(x[:5], return_std=True, X_std=0.1)
    assert (uncertain > 0).all()
    lower, upper = fitted.predict_interval(x)
    assert (lower < upper).all()
    quantiles = fitted.predict_quantiles(x, [0.05, 0.5, 0.95])
    assert np.allclose(quantiles[:, 0], lower)
    assert np.mean(fitted.log_density(x, y)) > -stats.norm(0, y.std()).entropy()
    assert np.allclose(fitted.cdf(x, quantiles[:, 1]), 0.5, atol=1e-6)
    assert (fitted.predict_noise(x) > 0).all()
    left_out, _ = fitted.loo_predict(return_std=True)
    assert left_out.shape == mean.shape
    assert fitted.warp(x, member=6) == []
    assert len(fitted.warp(x, member=5)) == 2
    assert len(fitted.warp(x)) == 2
    assert 3 <= fitted._fitted.shown_member < 6
    assert (np.diff(fitted.warp_targets(np.sort(y), member=5)) > 0).all()
    with pytest.raises(AttributeError, match="no evidence of all rows"):
        _ = fitted.log_marginal_likelihood_


def test_a_recipe_is_kept_with_the_model(rows: tuple[Array, Array], tmp_path: Path) -> None:
    recipe = Recipe(kinds=("neighbours-0-rough",), output_warp="none", pruning=False)
    regressor = small(recipe=recipe, n_members=1).fit(*rows)
    regressor.save(tmp_path / "model")
    assert load(tmp_path / "model").recipe == regressor.recipe


def test_the_same_seed_gives_the_same_model_nearly_whatever_the_order_of_rows(
    single: BaseRegressor, rows: tuple[Array, Array]
) -> None:
    x, y = rows
    expected = single.predict(x)
    assert np.array_equal(small(n_members=1).fit(x, y).predict(x), expected)
    order = np.random.default_rng(1).permutation(len(x))
    shuffled = x[order], y[order]  # are in other mini-batches
    assert np.allclose(small(n_members=1).fit(*shuffled).predict(x), expected, atol=0.02)
    fits = [small(recipe=BY_FEATURES, n_members=2).fit(*each) for each in (rows, shuffled)]
    first, second = (each.predict(x) for each in fits)
    assert np.allclose(first, second, rtol=1e-4, atol=1e-4)
    assert np.isfinite(fits[0].log_marginal_likelihood_)


@pytest.mark.parametrize("n", [2, 3, 10, 30])
def test_few_rows(n: int) -> None:
    x, y = make_rows(n)
    mean, std = small(n_members=2).fit(x, y).predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - y) ** 2)) <= 1.05 * y.std()  # not worse than their mean
    assert (std > 0).all()


ODD: dict[str, Any] = {
    "integers beside a constant": lambda x, y: (np.column_stack((np.round(2 * x), x[:, 0] > 9)), y),
    "rows twice": lambda x, y: (np.repeat(x, 2, 0), np.repeat(y, 2)),
    "two values": lambda x, y: (x, (y > 0).astype(float)),
    "counts": lambda x, y: (x, np.round(np.exp(y))),
    "one column": lambda x, y: (x[:, :1], y),
    "a function of the inputs": lambda x, y: (x, x[:, 0] + 2 * x[:, 1]),
}


@pytest.mark.parametrize("name", [*ODD, "uncertain inputs"])
def test_unusual_tables(name: str, rows: tuple[Array, Array]) -> None:
    x, y = ODD[name](*rows) if name in ODD else rows
    X_std = None
    if name == "uncertain inputs":
        x, y, X_std = x[:40], y[:40], 0.1
    regressor = small(n_members=1).fit(x, y, X_std=X_std)
    mean, std = regressor.predict(x, return_std=True)
    lower, upper = regressor.predict_interval(x)
    assert np.sqrt(np.mean((mean - y) ** 2)) < 0.95 * y.std()  # better than the mean alone
    assert (std > 0).all()
    assert (lower <= upper).all()
    assert np.mean((lower <= y) & (y <= upper)) > 0.7


@pytest.mark.parametrize("settings", [{}, {"depth": 1}])
def test_copies_of_one_row_are_fitted(settings: dict[str, int]) -> None:
    regressor = small(**settings, max_iter=2).fit(np.ones((10, 2)), np.full(10, 3.0))
    assert regressor.n_samples_seen_ == 10
    assert np.allclose(regressor.predict(np.ones((1, 2))), 3.0)


def test_weights_in_any_unit_are_repeated_rows(rows: tuple[Array, Array]) -> None:
    x, y = rows
    targets = np.column_stack((y, np.cos(x[:, 0])))
    times = np.random.default_rng(0).integers(0, 4, len(x))
    repeated = small(n_members=1).fit(np.repeat(x, times, 0), np.repeat(targets, times, 0))
    for unit in (1, 0.01):
        weighted = small(n_members=1).fit(x, targets, sample_weight=unit * times)
        assert np.allclose(weighted.predict(x), repeated.predict(x), rtol=1e-6, atol=1e-6)
