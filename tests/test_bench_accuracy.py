"""One fit and its scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bench_helpers import MeanOnly, write_set
from scipy import stats

from sswim.bench.accuracy import Job, run_fit
from sswim.bench.methods import METHODS
from sswim.data.named import split


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
    assert result.coverage_90 == pytest.approx(np.mean(np.abs(error) < 1.6448536))
    assert (result.n_train, result.n_test, result.n_inputs) == (100, 50, 3)
    assert (result.settings, result.device) == ('{"offset":2e-05}', "cpu")
    assert result.version == f"sswim 0.1.0; numpy {np.__version__}"
    assert result.job == Job("airfoil", "sswim", 4)


def test_scores_that_are_no_numbers_are_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "sswim", MeanOnly(offset=np.inf))
    write_set(tmp_path)
    with pytest.raises(ArithmeticError, match="must be finite"):
        run_fit(Job("airfoil", "sswim", 0), "cpu", str(tmp_path))
