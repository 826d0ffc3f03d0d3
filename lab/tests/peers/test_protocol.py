"""The methods behind the protocol, each on 150 rows."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from builders.crps import integrated_crps
from builders.estimators import few_noise_steps  # noqa: F401 (for every test here)
from lab_builders.peers import rows, skip_without_libraries
from scipy import stats
from sswim_lab.bench.methods import require_method
from sswim_lab.peers.protocol import Fitted, Gaussian
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
