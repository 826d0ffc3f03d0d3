"""What every peer does, and peers of other libraries against their formulas."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.crps import Array, integrated_crps
from builders.estimators import few_noise_steps  # noqa: F401 (for every test here)
from lab_builders.peers import (
    QUICK_BWGP,
    QUICK_MLWGP,
    SMALL_GPYTORCH,
    SMALL_SSWIM,
    predicted,
    rows,
    skip_without_libraries,
)
from scipy import stats
from sswim_lab.bench.methods import require_method
from sswim_lab.peers.dense_gp import GP
from sswim_lab.peers.gpboost_vecchia import FittedGPBoost, GPBoost
from sswim_lab.peers.gpytorch_models import mini_batches
from sswim_lab.peers.gpytorch_peers import SGPR, ExactGP
from sswim_lab.peers.protocol import (
    Fitted,
    Gaussian,
    Method,
    Predictive,
    kept_random_state,
    standardise,
)
from sswim_lab.peers.published_sswim import RFFNS, RFFS
from sswim_lab.peers.sswim_method import SSWIM
from sswim_lab.peers.trees import (
    CatBoost,
    ConstantVariance,
    LearntVariance,
    Pytabkit,
    hold_out_tenth,
)

TREES = ("lightgbm", "catboost", "catboost-rmse", "hist-gradient-boosting", "lgbm-td", "ngboost")
DENSE: dict[str, Method] = {"gp": GP(), "mlwgp3": QUICK_MLWGP, "bwgp": QUICK_BWGP}
SMALL: dict[str, Method] = {
    "sswim": SSWIM({"n_components": 32, "n_pseudo": 4, "n_members": 1, "max_iter": 20}),
    **SMALL_GPYTORCH,
    **DENSE,
    "sswim1-paper": replace(SMALL_SSWIM, steps=60),
    "sswim2-paper": replace(SMALL_SSWIM, depth=2, steps=60),
    "rffs": replace(RFFS, n_components=32, steps=60),
    "rffns": replace(RFFNS, n_components=32, steps=60),
}
"""Quick versions of slow methods."""
NETWORKS: dict[str, Method] = {
    "realmlp-td": Pytabkit("RealMLP_TD_Regressor", changes={"n_epochs": 3}),
    "tabm-d": Pytabkit("TabM_D_Regressor", changes={"n_epochs": 1}),
}
"""Networks after too few epochs to learn."""
SANE = [*TREES, "xrfm-d", "gpboost-vecchia", *SMALL]
CERTAIN = (*DENSE, "exact-gp", "exact-gp-well-trained", "sgpr")
"""Methods in which nothing is random."""


def small(name: str) -> Method:
    """Return a quick version of a method; skip the test if its libraries are not installed."""
    skip_without_libraries(name)
    return (SMALL | NETWORKS).get(name) or require_method(name)


def brief(method: Method) -> Any:
    """Return the method with two steps, epochs or iterations, if it has a number of them."""
    if isinstance(method, SSWIM):
        return SSWIM({**method.changes, "max_iter": 2})
    numbers = {"epochs", "steps", "iterations"} & getattr(method, "__dict__", {}).keys()
    return replace(method, **dict.fromkeys(numbers, 2)) if numbers else method  # type: ignore[type-var]


@pytest.mark.parametrize("name", SANE)
def test_scores_are_finite_and_sane(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    method = small(name)
    assert isinstance(method, Method)
    x, y = rows(50 if name in DENSE else 150)
    test_x, test_y = rows(300, seed=1)
    fitted = method.fit(x, y, 0, "cpu")
    assert isinstance(fitted, Fitted)
    predictive = fitted.predict(test_x)
    assert isinstance(predictive, Predictive)
    error = np.sqrt(np.mean((predictive.mean - test_y) ** 2))
    assert error < (0.4 if name in DENSE else 0.6) * y.std()
    plain = stats.norm.logpdf(test_y, y.mean(), y.std()).mean()  # a Gaussian without inputs
    assert predictive.log_density(test_y).mean() > plain + 0.2
    assert 0 < predictive.crps(test_y).mean() < 0.35 * y.std()  # 0.56 without inputs
    assert (predictive.variance > 0).all()
    lower, upper = predictive.interval(0.9)
    covered = np.mean((lower <= test_y) & (test_y <= upper))
    assert 0.75 < covered < 0.99 if name in DENSE else 0.7 < covered <= 1
    assert ((lower < predictive.mean) & (predictive.mean < upper)).all()
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", [*TREES, *NETWORKS, "xrfm-d", "gpboost-vecchia", *SMALL])
def test_the_seed_decides(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    method = brief(small(name))
    first, again, other = (predicted(method, seed, 60) for seed in (0, 0, 1))
    assert np.array_equal(first.mean, again.mean)
    assert np.array_equal(first.variance, again.variance)
    assert np.array_equal(first.mean, other.mean) == (name in CERTAIN)
    assert (first.variance > 0).all()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["gpboost-vecchia", *SMALL_GPYTORCH])
def test_ten_rows_are_enough(name: str) -> None:
    predictive = predicted(brief(small(name)), n=10)
    _, y = rows(10)
    assert (np.abs(predictive.mean - y.mean()) < 2 * y.std()).all()
    assert ((predictive.variance > 0) & (predictive.variance < 10 * y.var())).all()


@pytest.mark.parametrize("name", DENSE)
def test_a_target_that_never_varies(name: str) -> None:
    x, _ = rows(20)
    predictive = DENSE[name].fit(x, np.full(20, 3.0), 0, "cpu").predict(x)
    assert np.allclose(predictive.mean, 3, atol=0.05 if name == "bwgp" else 0.01)
    assert np.isfinite(predictive.log_density(np.full(20, 3.0))).all()
    assert (predictive.variance > 0).all()


def test_gaussian_densities() -> None:
    mean, variance, y = np.array([0.0, 1.0]), np.array([1.0, 4.0]), np.array([0.5, -3.0])
    gaussian, reference = Gaussian(mean, variance), stats.norm(mean, np.sqrt(variance))
    assert np.allclose(gaussian.log_density(y), reference.logpdf(y))
    assert np.allclose(gaussian.interval(0.9), np.stack(reference.interval(0.9)))
    cdf = stats.norm(mean[:, None], np.sqrt(variance)[:, None]).cdf
    assert np.allclose(gaussian.crps(y), integrated_crps(cdf, y, -30, 30), rtol=1e-4)


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_standardising_and_its_inverse(dtype: torch.dtype, close: float) -> None:
    x, y = rows(100)
    training = standardise(x, y, "cpu", dtype)
    assert training.x.dtype == training.y.dtype == dtype
    assert torch.allclose(training.x.mean(0), torch.zeros(3, dtype=dtype), atol=close)
    spread = training.x.std(0, correction=0)
    assert torch.allclose(spread, torch.tensor([1.0, 1.0, 0.0], dtype=dtype), atol=close)
    assert torch.equal(training.inputs(x), training.x)
    gaussian = training.gaussian(training.y, torch.ones(100, dtype=dtype))
    assert np.allclose(gaussian.mean, y, atol=close * y.std())
    assert np.allclose(gaussian.variance, y.var())
    assert gaussian.mean.dtype == gaussian.variance.dtype == np.float64
    exact = standardise(x, y, "cpu").scaling.tensors()
    assert all(map(torch.equal, training.scaling.tensors(), exact))


def draw() -> tuple[float, float, float]:
    """Draw from the generators of Python, NumPy and PyTorch."""
    return random.random(), np.random.rand(), torch.rand(()).item()  # noqa: NPY002 (the global one)


def test_random_states_are_seeded_and_restored() -> None:
    state = random.getstate()  # the other two are checked after every test
    drawn = []
    for seed in (1, 1, 2):
        with kept_random_state(seed):
            drawn.append(draw())
    assert drawn[0] == drawn[1]
    assert not set(drawn[0]) & set(drawn[2])
    with pytest.raises(ZeroDivisionError), kept_random_state(1):
        _ = draw()[0] / 0
    assert random.getstate() == state


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
