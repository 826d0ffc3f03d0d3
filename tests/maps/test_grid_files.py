"""Files of maps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rioxarray
import xarray
from builders.maps import plane_model

from sswim.base.validation import UserError
from sswim.maps import predict_grid, write_grid


def open_geotiff(path: Path) -> xarray.DataArray:
    found = rioxarray.open_rasterio(path)
    assert isinstance(found, xarray.DataArray)
    return found


@pytest.fixture(scope="module")
def grid() -> xarray.Dataset:
    return predict_grid(plane_model(), (0, 10, 40, 45), spacing=0.5, crs="EPSG:3035")


def test_a_geotiff_has_the_north_up_and_named_bands(grid: xarray.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "map.tif"
    write_grid(grid, path)
    with open_geotiff(path) as found:
        assert found.rio.crs.to_epsg() == 3035
        assert found.rio.bounds() == (0, 40, 10, 45)
        assert found.y.values[0] > found.y.values[-1]
        assert np.isnan(found.rio.nodata)
        quantiles = ("quantile 0.05", "quantile 0.5", "quantile 0.95")
        assert found.attrs["long_name"] == ("mean", "std", *quantiles)
        np.testing.assert_array_equal(found.values[0][::-1], grid["mean"])
        np.testing.assert_array_equal(found.values[1][::-1], grid["std"])
        np.testing.assert_array_equal(found.values[2:, ::-1], grid["quantiles"])
    assert [file.name for file in tmp_path.iterdir()] == ["map.tif"]


def test_a_netcdf_file_holds_the_dataset(grid: xarray.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "map.nc"
    write_grid(grid, path)
    with xarray.open_dataset(path, decode_coords="all") as found:
        xarray.testing.assert_equal(found, grid)
        assert found.rio.crs.to_epsg() == 3035
        assert found["x"].attrs == grid["x"].attrs
        assert found.attrs["Conventions"] == "CF-1.8"


def test_maps_without_reference_system_and_quantiles_can_be_written(tmp_path: Path) -> None:
    plain = predict_grid(plane_model(), (0, 10, 40, 45), shape=(2, 3), quantiles=())
    for name in ("map.tiff", "map.nc"):
        write_grid(plain, tmp_path / name)
    with open_geotiff(tmp_path / "map.tiff") as found:
        assert found.rio.crs is None
        assert found.attrs["long_name"] == ("mean", "std")
    with xarray.open_dataset(tmp_path / "map.nc") as found:
        assert "quantiles" not in found


def test_an_older_file_stays_if_writing_fails(
    grid: xarray.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError("disk full")

    path = tmp_path / "map.nc"
    path.write_text("old")
    monkeypatch.setattr(xarray.Dataset, "to_netcdf", fail)
    with pytest.raises(OSError, match="disk full"):
        write_grid(grid, path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["map.nc"]


def test_other_formats_are_refused(grid: xarray.Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"must end in \.tif, \.tiff, \.nc, \.nc4"):
        write_grid(grid, tmp_path / "map.png")
