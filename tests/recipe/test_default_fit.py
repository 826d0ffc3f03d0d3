"""A small version of the default: an ensemble of kinds, with every method of the estimator."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from sswim import SSWIMRegressor
from sswim.recipe.recipe import Recipe

Array = np.ndarray[Any, Any]


def small(**changes: Any) -> SSWIMRegressor:
    settings: dict[str, Any] = {"n_components": 16, "n_pseudo": 4, "max_iter": 4, "random_state": 0}
    return SSWIMRegressor(**(settings | {"device": "cpu"} | changes))


def make_rows(n: int = 90, seed: int = 0) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    x = np.column_stack((random.uniform(-2, 2, n), random.lognormal(size=n)))
    return x, np.sin(2 * x[:, 0]) + np.log(x[:, 1]) + 0.1 * random.normal(size=n)


@pytest.fixture(scope="module")
def rows() -> tuple[Array, Array]:
    return make_rows()


@pytest.fixture(scope="module")
def fitted(rows: tuple[Array, Array]) -> SSWIMRegressor:
    return small().fit(*rows)


def test_kinds_of_three_depths_are_combined(fitted: SSWIMRegressor) -> None:
    depths = [model.architecture.depth for model in fitted._models]
    assert depths == [0] * 6 + [1] * 6 + [2] * 6
    assert fitted.weights_.shape == (18,)
    assert fitted.weights_.sum() == pytest.approx(1)
    assert (fitted.weights_ > 0).all()
    assert len(fitted.history_) == 18


def test_predictions_of_every_kind(fitted: SSWIMRegressor, rows: tuple[Array, Array]) -> None:
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
    assert fitted.warp(x, member=0) == []
    assert len(fitted.warp(x, member=17)) == 2
    assert len(fitted.warp(x)) == 2
    assert 12 <= fitted.shown_member_ < 15
    assert (np.diff(fitted.warp_targets(np.sort(y), member=17)) > 0).all()
    assert np.isfinite(fitted.log_marginal_likelihood_)


def test_draws_come_from_the_mixture(fitted: SSWIMRegressor, rows: tuple[Array, Array]) -> None:
    x, _ = rows
    draws = fitted.sample_y(x[:20], n_samples=4000, include_noise=True)
    mean, std = fitted.predict(x[:20], return_std=True)
    assert np.abs(draws.mean(1) - mean).max() < 5 * std.max() / np.sqrt(4000)
    assert np.allclose(draws.std(1), std, rtol=0.15)


def test_more_rows_in_pieces(rows: tuple[Array, Array]) -> None:
    x, y = rows
    more, targets = make_rows(30, seed=1)
    pieces = small().fit(x, y).partial_fit(more[:10], targets[:10])
    pieces.partial_fit(more[10:], targets[10:])
    at_once = small().fit(x, y).partial_fit(more, targets)
    assert np.allclose(pieces.predict(x), at_once.predict(x), rtol=1e-8)
    assert pieces.n_samples_seen_ == 120


def test_the_model_file_keeps_all_of_it(
    fitted: SSWIMRegressor, rows: tuple[Array, Array], tmp_path: Path
) -> None:
    x, y = rows
    fitted.save(tmp_path / "model")
    loaded = SSWIMRegressor.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(x), fitted.predict(x))
    assert np.array_equal(loaded.log_density(x, y), fitted.log_density(x, y))
    assert np.array_equal(loaded.weights_, fitted.weights_)


def test_a_recipe_is_kept_with_the_model(rows: tuple[Array, Array], tmp_path: Path) -> None:
    recipe = Recipe(depths=(0,), output_warp="none")
    regressor = small(recipe=recipe).fit(*rows)
    regressor.save(tmp_path / "model")
    assert SSWIMRegressor.load(tmp_path / "model").recipe == recipe


def test_pickles_hold_no_rows(fitted: SSWIMRegressor, rows: tuple[Array, Array]) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(rows[0]), fitted.predict(rows[0]))
    with pytest.raises(ValueError, match="not kept"):
        again.loo_predict()


def test_the_same_seed_gives_the_same_model(
    fitted: SSWIMRegressor, rows: tuple[Array, Array]
) -> None:
    again = small().fit(*rows)
    assert np.array_equal(again.predict(rows[0]), fitted.predict(rows[0]))


def test_the_order_of_rows_does_not_matter(
    fitted: SSWIMRegressor, rows: tuple[Array, Array]
) -> None:
    x, y = rows
    order = np.random.default_rng(1).permutation(len(x))
    shuffled = small().fit(x[order], y[order])
    assert np.allclose(shuffled.predict(x), fitted.predict(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [2, 3, 10, 30])
def test_few_rows(n: int) -> None:
    x, y = make_rows(n)
    mean, std = small().fit(x, y).predict(x, return_std=True)
    assert np.sqrt(np.mean((mean - y) ** 2)) <= 1.05 * y.std()  # not worse than their mean
    assert (std > 0).all()


def test_several_targets_and_weights(rows: tuple[Array, Array]) -> None:
    x, y = rows
    targets = np.column_stack((y, np.cos(x[:, 0])))
    weight = np.random.default_rng(0).integers(0, 3, len(x))
    weighted = small().fit(x, targets, sample_weight=weight)
    repeated = small().fit(np.repeat(x, weight, 0), np.repeat(targets, weight, 0))
    assert np.allclose(weighted.predict(x), repeated.predict(x), rtol=1e-3, atol=1e-3)


ODD: dict[str, Any] = {
    "rows twice": lambda x, y: (np.repeat(x, 2, 0), np.repeat(y, 2)),
    "two values": lambda x, y: (x, (y > 0).astype(float)),
    "counts": lambda x, y: (x, np.round(np.exp(y))),
    "integer columns": lambda x, y: (np.round(2 * x), y),
    "a constant column": lambda x, y: (np.column_stack((x, np.ones(len(x)))), y),
    "one column": lambda x, y: (x[:, :1], y),
    "a function of the inputs": lambda x, y: (x, x[:, 0] + 2 * x[:, 1]),
}


@pytest.mark.parametrize("name", [*ODD, "uncertain inputs"])
def test_unusual_tables(name: str, rows: tuple[Array, Array]) -> None:
    x, y = ODD[name](*rows) if name in ODD else rows
    X_std = 0.1 if name == "uncertain inputs" else None
    regressor = small(n_members=2).fit(x, y, X_std=X_std)
    mean, std = regressor.predict(x, return_std=True)
    lower, upper = regressor.predict_interval(x)
    assert np.sqrt(np.mean((mean - y) ** 2)) < 0.95 * y.std()  # better than the mean alone
    assert (std > 0).all()
    assert (lower <= upper).all()
    assert np.mean((lower <= y) & (y <= upper)) > 0.7


@pytest.mark.parametrize("depth", ["auto", 1])
def test_copies_of_one_row_are_fitted(depth: Any) -> None:
    regressor = small(depth=depth, max_iter=2).fit(np.ones((10, 2)), np.full(10, 3.0))
    assert regressor.n_samples_seen_ == 10
    assert np.allclose(regressor.predict(np.ones((1, 2))), 3.0)
