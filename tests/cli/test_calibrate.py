"""The commands ``sswim calibrate`` and ``sswim monitor``, and conformal predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from builders.commands import fit_prices, invoke, prices, refuse, succeed

from sswim import load
from sswim.cli.evaluate import DRIFTED
from sswim.tables import read_table, write_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, and rows that it has not seen."""
    folder = tmp_path_factory.mktemp("calibrate")
    table = prices(180)
    pq.write_table(table.slice(0, 60), folder / "train.parquet")
    pq.write_table(table.slice(60, 60), folder / "more.parquet")
    pq.write_table(table.slice(120), folder / "new.parquet")
    fit_prices(folder / "train.parquet", folder / "model.sswim")
    return folder


@pytest.fixture(scope="module")
def calibrated(folder: Path) -> Path:
    out = folder / "calibrated.sswim"
    result = succeed("calibrate", folder / "model.sswim", folder / "more.parquet", "--out", out)
    assert "with 60 rows" in result.output
    return out


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_predictions_are_conformal_after_calibration(
    suffix: str, folder: Path, calibrated: Path
) -> None:
    table, out = folder / f"new{suffix}", folder / f"predicted{suffix}"
    write_table(pq.read_table(folder / "new.parquet"), table)
    succeed("predict", calibrated, table, "--out", out, "--level", "0.8", "--conformal")
    written, model = read_table(out), load(calibrated)
    lower, upper, median, mean = (
        written[name].to_numpy() for name in ("lower", "upper", "median", "mean")
    )
    expected = model.predict_interval(table, 0.8, method="conformal")
    np.testing.assert_allclose((lower, upper), expected, rtol=1e-12)
    assert np.all((lower <= median) & (median <= upper))
    np.testing.assert_allclose(mean, model.predict(table), rtol=1e-12)


def test_a_model_that_is_not_calibrated_says_what_to_do(folder: Path) -> None:
    out = folder / "none.parquet"
    command = ("predict", folder / "model.sswim", folder / "new.parquet", "--conformal")
    assert "call calibrate" in refuse(*command, "--out", out)
    assert not out.exists()


def test_monitor_says_that_nothing_has_changed(folder: Path, calibrated: Path) -> None:
    picture = folder / "monitor.png"
    result = succeed("monitor", calibrated, folder / "new.parquet", "--plot", picture)
    assert "No sign of drift in 60 rows." in result.output
    assert "coverage of 90% intervals" in result.output
    assert picture.stat().st_size > 1000


def test_monitor_notices_a_shift_and_its_exit_code_says_so(folder: Path, calibrated: Path) -> None:
    table = pq.read_table(folder / "new.parquet")
    place = table.schema.get_field_index("price")
    shifted = table.set_column(place, "price", [table["price"].to_numpy() + 3])
    pq.write_table(shifted, folder / "shifted.parquet")
    result = invoke("monitor", calibrated, folder / "shifted.parquet")
    assert result.exit_code == DRIFTED
    assert "The targets drifted (higher than predicted)" in result.output
    succeed("monitor", calibrated, folder / "shifted.parquet", "--inputs-only")
