"""The protocol of peers, standardised rows and global state."""

from __future__ import annotations

import logging
import os
import random
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from builders.crps import integrated_crps
from builders.estimators import few_noise_steps  # noqa: F401 (for every test here)
from lab_builders.peers import rows, skip_without_libraries
from scipy import stats
from sswim_lab.bench.methods import require_method
from sswim_lab.peers.protocol import Fitted, Gaussian, kept_random_state, silenced, standardise
from sswim_lab.peers.sswim_method import SSWIM

PEERS = ["lightgbm", "catboost", "hist-gradient-boosting", "exact-gp", "gpboost-vecchia"]
STRONG_PEERS = ["lgbm-td", "catboost-rmse", "ngboost", "xrfm-d"]
QUICK = SSWIM({"n_components": 32, "n_pseudo": 4, "n_members": 1, "max_iter": 20})


@pytest.mark.parametrize("name", [*PEERS, *STRONG_PEERS, "sswim"])
def test_scores_are_finite_and_sane(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    skip_without_libraries(name)
    method = QUICK if name == "sswim" else require_method(name)
    x, y = rows()
    test_x, test_y = rows(300, seed=1)
    fitted = method.fit(x, y, 0, "cpu")
    assert isinstance(fitted, Fitted)
    predictive = fitted.predict(test_x)
    assert np.sqrt(np.mean((predictive.mean - test_y) ** 2)) < 0.6 * y.std()
    gain = (
        predictive.log_density(test_y).mean() - stats.norm.logpdf(test_y, y.mean(), y.std()).mean()
    )
    assert gain > 0.2  # over a Gaussian without inputs
    assert 0 < predictive.crps(test_y).mean() < 0.35 * y.std()  # 0.56 without inputs
    lower, upper = predictive.interval(0.9)
    assert 0.7 < np.mean((lower <= test_y) & (test_y <= upper)) <= 1
    assert (lower < predictive.mean).all()
    again = method.fit(x, y, 0, "cpu").predict(test_x)
    assert np.array_equal(again.mean, predictive.mean)
    assert os.listdir(tmp_path) == []
    assert capfd.readouterr() == ("", "")


def test_gaussian_densities() -> None:
    mean, variance, y = np.array([0.0, 1.0]), np.array([1.0, 4.0]), np.array([0.5, -3.0])
    gaussian = Gaussian(mean, variance)
    assert np.allclose(gaussian.log_density(y), stats.norm.logpdf(y, mean, np.sqrt(variance)))
    expected = stats.norm.interval(0.9, mean, np.sqrt(variance))
    assert np.allclose(gaussian.interval(0.9), expected)
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


def test_the_scaling_is_in_float64() -> None:
    x, y = rows(100)
    one, other = (standardise(x, y, "cpu", dtype) for dtype in (torch.float32, torch.float64))
    for value, reference in zip(one.scaling.tensors(), other.scaling.tensors(), strict=True):
        assert torch.equal(value, reference)


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


def test_nothing_is_printed_logged_or_warned_of(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with silenced():
        print("printed")
        print("an error", file=sys.stderr)
        logging.getLogger("library").warning("logged")
        warnings.warn("warned", stacklevel=1)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    logging.getLogger("library").warning("logged again")
    assert len(caplog.records) == 1
