"""What every peer does: sane densities, silence, and the same result for the same seed."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.crps import integrated_crps
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
from sswim_lab.peers.trees import Pytabkit

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
