"""The GP of GPBoost: few rows, constant inputs, and a dense GP as the reference."""

from __future__ import annotations

import numpy as np
import pytest
from builders.crps import Array
from lab_builders.peers import predicted, rows
from sswim_lab.peers.gpboost_vecchia import FittedGPBoost, GPBoost
from sswim_lab.peers.protocol import standardise


def matern32(x: Array, others: Array, variance: float, lengths: Array) -> Array:
    """Return s²(1 + √3 r) exp(−√3 r), where r is the distance in units of the length-scales."""
    difference = (x[:, None] - others[None]) / lengths
    distance = np.sqrt(3 * np.square(difference).sum(-1))
    covariance: Array = variance * (1 + distance) * np.exp(-distance)
    return covariance


def test_with_all_rows_as_neighbours_it_is_the_exact_gp() -> None:
    x, y = rows(60)
    fitted = GPBoost(n_neighbors=60).fit(x, y, 0, "cpu")
    assert isinstance(fitted, FittedGPBoost)
    assert fitted.varying.tolist() == [True, True, False]
    test_x = rows(20, seed=1)[0]
    predictive = fitted.predict(test_x)
    standard = standardise(x, y, "cpu")
    inputs, others = standard.x.numpy()[:, :2], standard.inputs(test_x).numpy()[:, :2]
    noise, variance, *lengths = np.asarray(fitted.model.get_cov_pars(format_pandas=False)).ravel()
    mean = np.asarray(fitted.model.get_coef(format_pandas=False)).ravel()[0]
    kernel = (variance, np.array(lengths))
    cross = matern32(others, inputs, *kernel)
    total = matern32(inputs, inputs, *kernel) + noise * np.eye(len(y))
    expected = mean + cross @ np.linalg.solve(total, standard.y.numpy() - mean)
    spread = variance + noise - (cross * np.linalg.solve(total, cross.T).T).sum(1)
    assert np.allclose((predictive.mean - y.mean()) / y.std(), expected, atol=1e-5)
    assert np.allclose(predictive.variance / y.var(), spread, rtol=1e-4)


def test_few_rows_are_enough(capfd: pytest.CaptureFixture[str]) -> None:
    predictive = predicted(GPBoost(), n=10)
    assert np.isfinite(predictive.mean).all()
    assert (predictive.variance > 0).all()
    assert capfd.readouterr() == ("", "")


def test_the_seed_orders_the_rows() -> None:
    first, again, other = (predicted(GPBoost(n_neighbors=3), seed) for seed in (0, 0, 1))
    assert np.array_equal(first.mean, again.mean)
    assert not np.array_equal(first.mean, other.mean)
