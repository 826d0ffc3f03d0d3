"""One fit and its scores, and the file of results."""

from __future__ import annotations

import math
import re
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from lab_builders.bench import MeanOnly, row, write_set
from scipy import stats
from sswim_lab.bench.accuracy import Job, Row, failed_row, run_fit
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import append_results, columns, read_results
from sswim_lab.datasets import split
from sswim_lab.peers.protocol import Gaussian

from sswim.base.version import __version__

COLUMNS = columns(Row)
HEADER = (
    "set,method,repeat,rmse,mnlp,mse_original,mnlp_original,crps,crps_original,coverage_90,fit_seconds,"
    "predict_seconds,n_train,n_test,n_inputs,device,settings,version,failure"
)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.touch()
    assert read_results(path) == []
    crps = {"crps": 0.1, "crps_original": 1e-5}
    rows = [
        row("airfoil", "a", 0, rmse=0.1 + 0.2, **crps),
        row("creep", "b", 1, mse_original=2.8e-8, **crps),
        row("airfoil", "a", 3, "RuntimeError: no luck, this time"),
    ]
    for result in rows:
        append_results(path, [result])
    *scored, failed = read_results(path)
    assert scored == rows[:2]
    assert failed.failure == "RuntimeError: no luck, this time"
    assert math.isnan(failed.rmse)
    assert path.read_text().splitlines()[0] == HEADER == ",".join(COLUMNS)
    assert len(path.read_text().splitlines()) == 4


def test_a_file_without_crps_is_read_and_gets_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    old = row("airfoil", "a", 0, rmse=0.25)
    new = row("airfoil", "a", 1, crps=0.125, crps_original=0.5)
    append_results(path, [old])
    lines = path.read_text().splitlines()
    header, values = HEADER.replace("crps,crps_original,", ""), lines[1].replace("nan,nan,", "")
    path.write_text(f"{header}\n{values}\n")
    (result,) = read_results(path)
    assert math.isnan(result.crps)
    assert result.rmse == 0.25
    append_results(path, [new])
    assert path.read_text().splitlines()[:2] == lines
    assert read_results(path)[1] == new


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", "must start with the columns set,method"),
        (",".join(COLUMNS[:-2]), "Missing: version. Move it away, or give another path (--out)."),
        (",".join((*COLUMNS, "seed", "host")), "Unexpected: seed, host. Move"),
        (",".join(("seed", *COLUMNS[1:])), "Missing: set; Unexpected: seed. Move"),
        (",".join(COLUMNS[::-1]), "The order differs. Move"),
        (f"{HEADER}\nairfoil,sswim,0,0.3\n", "Line 2 of "),
        (f"{HEADER}\n{',' * 18}\n", "is not a result"),
    ],
)
def test_other_files_raise_an_error(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_results(path)


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
    assert result.crps == pytest.approx(Gaussian(error * 0, error * 0 + 1).crps(error).mean())
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
