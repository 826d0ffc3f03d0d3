"""One fit, its rows and its scores."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from lab_builders.bench import MeanOnly, write_set
from scipy import stats
from sswim_lab.bench.accuracy import Job, failed_row, run_fit
from sswim_lab.bench.methods import METHODS
from sswim_lab.datasets import split

from sswim.base.version import __version__
from sswim.ensemble.scores import gaussian_crps


def test_scores_of_a_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "sswim", MeanOnly(offset=2e-5))
    write_set(tmp_path)
    result = run_fit(Job("airfoil", "sswim", 4), "auto", str(tmp_path))
    data = split("airfoil", 4, tmp_path)
    mean, std = data.train_y.mean() + 2e-5, data.train_y.std()
    error = (data.test_y - mean) / std
    assert result.rmse == pytest.approx(np.sqrt(np.mean(error**2)))
    assert result.mnlp == pytest.approx(-stats.norm.logpdf(error).mean())
    assert result.mse_original == pytest.approx(np.mean((data.test_y - mean) ** 2))
    assert result.mnlp_original == pytest.approx(-stats.norm.logpdf(data.test_y, mean, std).mean())
    assert result.mnlp_original == pytest.approx(result.mnlp + np.log(std))
    assert result.crps == pytest.approx(gaussian_crps(error * 0, error * 0 + 1, error).mean())
    assert result.crps_original == pytest.approx(result.crps * std)
    assert result.coverage_90 == pytest.approx(np.mean(np.abs(error) < 1.6448536))
    assert (result.n_train, result.n_test, result.n_inputs) == (100, 50, 3)
    assert (result.settings, result.device) == ('{"offset":2e-05}', "cpu")
    assert result.version == f"sswim {__version__}; numpy {np.__version__}"
    assert result.job == Job("airfoil", "sswim", 4)
    assert result.failure == ""
    monkeypatch.setitem(METHODS, "sswim", MeanOnly(offset=np.inf))
    with pytest.raises(ArithmeticError, match="must be finite"):
        run_fit(Job("airfoil", "sswim", 0), "cpu", str(tmp_path))


def test_a_failed_fit_has_a_row_without_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "sswim", MeanOnly(offset=3.0))
    result = failed_row(Job("airfoil", "sswim", 2), "cuda", "RuntimeError: no luck")
    assert result.job == Job("airfoil", "sswim", 2)
    sizes = (result.n_train, result.n_test, result.n_inputs)
    numbers = [value for value in astuple(result)[3:] if isinstance(value, (int, float))]
    assert np.isnan(numbers).sum() == len(numbers) - len(sizes)  # no score
    assert (*sizes, result.device) == (0, 0, 0, "cuda")
    assert result.settings == '{"offset":3.0}'
    assert result.version == f"sswim {__version__}; numpy {np.__version__}"
    assert result.failure == "RuntimeError: no luck"
