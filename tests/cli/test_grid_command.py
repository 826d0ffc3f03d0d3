"""The command ``sswim grid``."""

from __future__ import annotations

from pathlib import Path

import pytest
import rioxarray
import xarray
from builders.commands import FAST, invoke
from builders.maps import plane_model, sphere_rows

from sswim import load
from sswim.maps import predict_grid


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    rows = sphere_rows()
    rows["day"] = ["2024-01-01", "2024-01-02", "2024-01-03"] * (len(rows) // 3)
    rows.to_csv(folder / "rows.csv", index=False)
    out = folder / "model.sswim"
    options = ("--target", "height", "--coordinates", "lon,lat", *FAST)
    fitted = invoke("fit", folder / "rows.csv", "--out", out, *options)
    assert fitted.exit_code == 0, fitted.output
    return out


@pytest.mark.parametrize("suffix", [".tif", ".nc"])
def test_the_map_is_that_of_python(model: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"map{suffix}"
    options = ("--region", "170", "-170", "-10", "10", "--spacing", "2", "--at", "day=2024-01-02")
    written = invoke("grid", model, "--out", out, *options, "--quantile", "0.1")
    assert written.exit_code == 0, written.output
    assert "Predicted 10 × 10 cells and wrote" in written.output
    expected = predict_grid(
        load(model),
        (170, 190, -10, 10),
        2,
        at={"day": "2024-01-02"},
        quantiles=(0.1,),
    )
    if suffix == ".nc":
        with xarray.open_dataset(out, decode_coords="all") as found:
            xarray.testing.assert_equal(found, expected)
            assert found.rio.crs.to_epsg() == 4326
    else:
        bands = rioxarray.open_rasterio(out)
        assert isinstance(bands, xarray.DataArray)
        assert bands.rio.crs.to_epsg() == 4326
        assert bands.attrs["long_name"] == ("mean", "std", "quantile 0.1")
        assert bands.rio.bounds() == (170, -10, 190, 10)
        assert (bands.values[0][::-1] == expected["mean"].values).all()
        bands.close()


def test_shape_and_reference_system_may_be_given(tmp_path: Path) -> None:
    model, out = tmp_path / "model.sswim", tmp_path / "map.tif"
    plane_model(n_neighbors=8).save(model)
    written = invoke("grid", model, "--out", out, "--shape", "3", "4", "--crs", "EPSG:3035")
    assert written.exit_code == 0, written.output
    bands = rioxarray.open_rasterio(out)
    assert isinstance(bands, xarray.DataArray)
    assert bands.shape == (5, 3, 4)
    assert bands.rio.crs.to_epsg() == 3035
    bands.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("--out", "map.png"), "A map's file name must end in .tif"),
        (("--out", "missing/map.tif"), "Make the folder"),
        (("--at", "day"), "--at must be COLUMN=VALUE. Got 'day'"),
        (("--at", "night=1"), "at must name columns of the model. Got 'night'"),
        (("--coordinates", "lon"), "--coordinates must be two names"),
        (("--shape", "2", "2"), "either a spacing or a shape"),
        (("--crs", "nowhere"), "crs must be a coordinate reference system"),
    ],
)
def test_errors_have_one_line(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    options = ("--region", "170", "-170", "-10", "10", "--spacing", "2", "--at", "day=2024-01-02")
    refused = invoke("grid", model, "--out", "map.tif", *options, *changes)
    assert refused.exit_code == 1
    assert f"Error: {message}" in refused.stderr or message in refused.stderr
    assert not list(tmp_path.iterdir())
