"""Peers of other libraries against their formulas: GPs of GPyTorch and GPBoost, boosted trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.crps import Array
from lab_builders.peers import SMALL_GPYTORCH, predicted, rows, skip_without_libraries
from sswim_lab.peers.gpboost_vecchia import FittedGPBoost, GPBoost
from sswim_lab.peers.gpytorch_models import mini_batches
from sswim_lab.peers.gpytorch_peers import SGPR, ExactGP
from sswim_lab.peers.protocol import standardise
from sswim_lab.peers.trees import (
    CatBoost,
    ConstantVariance,
    LearntVariance,
    hold_out_tenth,
)


@pytest.mark.parametrize("name", SMALL_GPYTORCH)
@pytest.mark.parametrize("n", [150, 900])  # by default GPyTorch factorises fewer rows than that
def test_predictions_do_not_depend_on_chunks(
    name: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    method: Any = SMALL_GPYTORCH[name]
    (number,) = {"epochs", "steps", "iterations"} & vars(method).keys()
    fitted = replace(method, **{number: 2}).fit(*rows(n), 0, "cpu")
    x = rows(40, seed=1)[0]
    whole = fitted.predict(x)
    monkeypatch.setattr("sswim_lab.peers.gpytorch_models.PREDICTED_ROWS", 7)
    parts = fitted.predict(x)
    close = 1e-8 if method.settings()["dtype"] == "float64" else 1e-4
    assert np.allclose(whole.mean, parts.mean, rtol=close, atol=close * whole.mean.std())
    assert np.allclose(whole.variance, parts.variance, rtol=10 * close)
    assert np.allclose(whole.interval(0.5), parts.interval(0.5), rtol=close)


def test_every_epoch_has_all_rows_in_another_order() -> None:
    training = standardise(*rows(100), "cpu")
    batches = list(mini_batches(training, size=40, epochs=2, seed=0))
    assert [len(y) for _, y in batches] == [40, 40, 20] * 2
    epochs = [torch.cat([y for _, y in part]) for part in (batches[:3], batches[3:])]
    assert all(torch.equal(epoch.sort().values, training.y.sort().values) for epoch in epochs)
    assert not torch.equal(*epochs)
    x, y = batches[0]
    [(row,)] = [torch.where(training.y == y[0])]
    assert torch.equal(training.x[row[0]], x[0])


def test_inducing_points_at_all_rows_give_the_exact_gp() -> None:
    exact, sparse = predicted(ExactGP(steps=0)), predicted(SGPR(n_inducing=150, steps=0))
    assert np.allclose(sparse.mean, exact.mean, rtol=1e-6)
    assert np.allclose(sparse.variance, exact.variance, rtol=1e-4)
    few = predicted(SGPR(n_inducing=5, steps=0))
    assert not np.allclose(few.variance, exact.variance, rtol=1e-2)


def matern32(x: Array, others: Array, variance: float, lengths: Array) -> Array:
    """Return s²(1 + √3 r) exp(−√3 r), where r is the distance in units of the length-scales."""
    difference = (x[:, None] - others[None]) / lengths
    distance = np.sqrt(3 * np.square(difference).sum(-1))
    covariance: Array = variance * (1 + distance) * np.exp(-distance)
    return covariance


def test_gpboost_with_all_rows_as_neighbours_is_the_exact_gp() -> None:
    skip_without_libraries("gpboost-vecchia")
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


def test_catboost_has_one_variance_if_its_loss_is_the_error() -> None:
    skip_without_libraries("catboost")
    learnt, constant = predicted(CatBoost()), predicted(CatBoost("RMSE"))
    assert len(np.unique(learnt.variance)) > 10
    assert len(np.unique(constant.variance)) == 1
    assert CatBoost("RMSE").settings()["loss_function"] == "RMSE"
    assert "density" in CatBoost("RMSE").settings()
    assert "density" not in CatBoost().settings()


def test_a_tenth_is_held_out_and_the_target_standardised() -> None:
    x, y = rows(100)
    split = hold_out_tenth(x, y, 3)
    assert len(split.held_out_y) == 10
    together = np.concatenate([split.y, split.held_out_y])
    assert np.allclose(np.sort(split.target_mean + split.target_spread * together), np.sort(y))
    assert np.allclose([together.mean(), together.std()], [0, 1])
    assert np.array_equal(hold_out_tenth(x, y, 3).held_out_y, split.held_out_y)
    assert not np.array_equal(hold_out_tenth(x, y, 4).held_out_y, split.held_out_y)


class Zero:
    """A model that predicts zero."""

    def predict(self, x: Array) -> Array:
        return np.zeros(len(x))


def test_moments_are_in_the_units_of_the_target() -> None:
    x, y = rows(100)
    split = hold_out_tenth(x, y, 0)
    constant = ConstantVariance.from_held_out(Zero(), split).predict(x)
    assert np.allclose(constant.mean, y.mean())
    held_out = y.std() * split.held_out_y
    assert np.allclose(constant.variance, np.mean(held_out**2), rtol=1e-12, atol=0)
    fitted = LearntVariance(lambda x: (x[:, 0], np.abs(x[:, 1])), 3.0, 2.0)
    learnt = fitted.predict(np.array([[1.0, 0.25], [-2.0, 1.0]]))
    assert learnt.mean == pytest.approx([5, -1])
    assert learnt.variance == pytest.approx([1, 4])
