from __future__ import annotations

from pathlib import Path

import pytest
import rioxarray
import xarray
from builders.commands import FAST, refuse, succeed
from builders.maps import plane_model, sphere_rows

from sswim import load
from sswim.maps import predict_grid

MAP = ("--region", "170", "-170", "-10", "10", "--spacing", "2", "--at", "day=2024-01-02")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grid")
    rows, out = sphere_rows(), folder / "model.sswim"
    rows["day"] = ["2024-01-01", "2024-01-02", "2024-01-03"] * (len(rows) // 3)
    rows.to_csv(folder / "rows.csv", index=False)
    options = ("--target", "height", "--coordinates", "lon,lat", *FAST)
    succeed("fit", folder / "rows.csv", "--out", out, *options)
    return out


def bands_of(path: Path) -> xarray.DataArray:
    bands = rioxarray.open_rasterio(path)
    assert isinstance(bands, xarray.DataArray)
    return bands


@pytest.mark.parametrize("suffix", [".tif", ".nc"])
def test_the_map_is_that_of_python(model: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"map{suffix}"
    written = succeed("grid", model, "--out", out, *MAP, "--quantile", "0.1")
    assert "Predicted 10 × 10 cells and wrote" in written.output
    at, region = {"day": "2024-01-02"}, (170, 190, -10, 10)
    expected = predict_grid(load(model), region, 2, at=at, quantiles=(0.1,))
    if suffix == ".nc":
        with xarray.open_dataset(out, decode_coords="all") as found:
            xarray.testing.assert_equal(found, expected)
            assert found.rio.crs.to_epsg() == 4326
    else:
        with bands_of(out) as bands:
            assert bands.rio.crs.to_epsg() == 4326
            assert bands.attrs["long_name"] == ("mean", "std", "quantile 0.1")
            assert bands.rio.bounds() == (170, -10, 190, 10)
            assert (bands.values[0][::-1] == expected["mean"].values).all()


def test_shape_and_reference_system_may_be_given(tmp_path: Path) -> None:
    model, out = tmp_path / "model.sswim", tmp_path / "map.tif"
    plane_model(n_neighbors=8).save(model)
    succeed("grid", model, "--out", out, "--shape", "3", "4", "--crs", "EPSG:3035")
    with bands_of(out) as bands:
        assert bands.shape == (5, 3, 4)
        assert bands.rio.crs.to_epsg() == 3035


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
def test_impossible_maps_are_refused(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in refuse("grid", model, "--out", "map.tif", *MAP, *changes)
    assert not list(tmp_path.iterdir())
