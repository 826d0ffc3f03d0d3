"""Predictions on the cells of a map, the regions and columns of maps, and their files."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import rioxarray
import xarray
from builders.maps import FAST, plane_model, sphere_model, sphere_rows, stations

from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor, make_estimator
from sswim.maps import grid, predict_grid, write_grid

REGION = (0, 10, 40, 45)
DATE_LINE = (170, -170, -10, 10)

cached_plane_model = functools.cache(plane_model)
cached_sphere_model = functools.cache(sphere_model)


def cells_of(data: Any) -> pd.DataFrame:
    """Return the middles of the cells as rows, row by row."""
    x, y = np.meshgrid(data["x"], data["y"])
    return pd.DataFrame({"x": x.ravel(), "y": y.ravel()})


def edges_of(data: Any, *names: str) -> list[float]:
    """Return the outer edges of the cells: west, east, south, north."""
    edges = []
    for name in names:
        middles = data[name].values
        half = 0.5 * (middles[1] - middles[0])
        edges += [middles[0] - half, middles[-1] + half]
    return edges


def sphere_model_with(**columns: Any) -> BaseRegressor:
    """Return a model of places on the sphere and further columns."""
    frame = sphere_rows()
    rows = frame[["lon", "lat"]].assign(**columns)
    return make_estimator(coordinates=("lon", "lat"), **FAST).fit(rows, frame["height"])


def dates(freq: str, zone: str | None = None) -> pd.DatetimeIndex:
    return pd.date_range("2024-01-01", periods=len(sphere_rows()), freq=freq, tz=zone)


@pytest.mark.parametrize("include_noise", [True, False])
def test_the_map_holds_the_predictions_of_its_cells(
    monkeypatch: pytest.MonkeyPatch, include_noise: bool
) -> None:
    monkeypatch.setattr(grid, "CHUNK_ROWS", 7)
    model = cached_plane_model(output_warp="sinh-arcsinh")
    quantiles = (0.1, 0.9) if include_noise else ()
    data = predict_grid(model, REGION, spacing=1, quantiles=quantiles, include_noise=include_noise)
    assert (data.sizes["y"], data.sizes["x"]) == (5, 10)
    np.testing.assert_allclose(data["x"], np.arange(10) + 0.5)
    np.testing.assert_allclose(data["y"], np.arange(40, 45) + 0.5)
    mean, std = model.predict(cells_of(data), return_std=True, include_noise=include_noise)
    np.testing.assert_allclose(data["mean"].values.ravel(), mean)
    np.testing.assert_allclose(data["std"].values.ravel(), std)
    of = "a new observation" if include_noise else "the function"
    assert data["std"].attrs["long_name"] == f"standard deviation of {of}"
    assert ("quantiles" in data) == include_noise
    if include_noise:
        expected = model.predict_quantiles(cells_of(data), quantiles)
        np.testing.assert_allclose(data["quantiles"].values.reshape(2, -1).T, expected)
        assert data["quantiles"].dims == ("quantile", "y", "x")
        assert data["quantile"].values.tolist() == [0.1, 0.9]


def test_the_reference_system_is_given_or_that_of_a_geo_frame() -> None:
    metres = predict_grid(cached_plane_model(), REGION, shape=(5, 10), crs="EPSG:3035")
    np.testing.assert_allclose(metres["x"], np.arange(10) + 0.5)
    assert metres.rio.crs.to_epsg() == 3035
    assert metres["x"].attrs["standard_name"] == "projection_x_coordinate"
    assert metres["x"].attrs["units"] == "metre"
    unknown = predict_grid(cached_plane_model(), REGION, spacing=3)  # which is adjusted
    assert len(unknown["x"]) == 3
    assert unknown.rio.crs is None
    assert unknown["x"].attrs["axis"] == "X"
    frame = stations()
    points = gpd.points_from_xy(1e5 * frame["x"], 1e5 * frame["y"])
    rows = gpd.GeoDataFrame({"depth": frame["y"]}, geometry=points, crs="EPSG:3035")
    model = make_estimator(**FAST).fit(rows, frame["height"])
    region = (0, 1e6, 4e6, 4.5e6)
    data = predict_grid(model, region, 1e5, coordinates=("x", "y"), at={"depth": 42.0})
    assert data.rio.crs.to_epsg() == 3035


def test_other_columns_have_fixed_values() -> None:
    frame = stations().assign(depth=np.arange(80) % 7)
    model = make_estimator(**FAST).fit(frame[["depth", "x", "y"]], frame["height"])
    data = predict_grid(model, REGION, spacing=1, coordinates=("x", "y"), at={"depth": "3"})
    assert data.coords["depth"] == 3.0
    rows = cells_of(data).assign(depth=3.0)[["depth", "x", "y"]]
    np.testing.assert_allclose(data["mean"].values.ravel(), model.predict(rows))
    of_arrays = make_estimator(**FAST).fit(frame[["depth", "x", "y"]].to_numpy(), frame["height"])
    same = predict_grid(of_arrays, REGION, 1, coordinates=(1, 2), at={0: 3})  # by number
    assert same["mean"].dims == ("y", "x")
    assert same.coords["0"] == 3.0
    np.testing.assert_allclose(same["mean"], data["mean"])
    both = {"coordinates": ("x", "y")}
    for at, names, message in (
        ({}, {}, "Got a model of 3 columns; give coordinates"),
        ({}, both, "Got none for 'depth'"),
        ({"depth": 1, "height": 2}, both, r"Got 'height'; it has 'depth', 'x', 'y'"),
        ({"depth": "low"}, both, "Column 'depth' must have a number. Got 'low'"),
        ({"depth": 1, "x": 1}, both, "A coordinate of the map has no fixed value. Got one for 'x'"),
        ({"depth": 1}, {"coordinates": ("x", "x")}, "two different columns"),
    ):
        with pytest.raises(UserError, match=message):
            predict_grid(model, REGION, spacing=1, at=at, **names)  # type: ignore[arg-type]


def test_dates_and_levels_may_be_fixed() -> None:
    kinds = np.where(np.arange(len(sphere_rows())) % 3, "a", "b")
    model = sphere_model_with(date=dates("D"), kind=kinds)
    data = predict_grid(model, DATE_LINE, 5, at={"date": "2024-02-01", "kind": "b"})
    assert data["date"].values == np.datetime64("2024-02-01")
    assert data["kind"] == "b"
    lon, lat = np.meshgrid(data["lon"], data["lat"])
    stamp = {"date": pd.Timestamp("2024-02-01"), "kind": "b"}
    cells = pd.DataFrame({"lon": lon.ravel(), "lat": lat.ravel(), **stamp})
    np.testing.assert_allclose(data["mean"].values.ravel(), model.predict(cells))
    value: Any
    for value in (date(2024, 2, 1), datetime(2024, 2, 1), np.datetime64("2024-02-01")):
        same = predict_grid(model, DATE_LINE, 5, at={"date": value, "kind": "b"})
        np.testing.assert_array_equal(same["mean"], data["mean"])
    for value in ("soon", 3):
        with pytest.raises(UserError, match="must have a date or time, such as 2024-07-01"):
            predict_grid(model, DATE_LINE, 5, at={"date": value, "kind": "b"})


def test_times_and_truths_may_be_fixed(tmp_path: Path) -> None:
    n_rows, zone = len(sphere_rows()), "America/New_York"
    model = sphere_model_with(
        hour=[time(number % 24) for number in range(n_rows)],
        new=np.arange(n_rows) % 3 == 0,
        date=dates("h", zone),
    )
    fixed = {"hour": "13:00", "new": "true", "date": "2024-01-02T03:00"}
    data = predict_grid(model, DATE_LINE, 5, at=fixed)
    assert data["hour"] == "13:00:00"
    assert data["new"] == 1.0
    assert data["date"].values == np.datetime64("2024-01-02T08:00")  # UTC
    write_grid(data, tmp_path / "map.nc")
    # A time without a zone is one of the zone of the rows.
    stamp = pd.Timestamp("2024-01-02T03:00", tz=zone)
    exact = predict_grid(model, DATE_LINE, 5, at=fixed | {"date": stamp})
    np.testing.assert_array_equal(data["mean"], exact["mean"])


def test_a_map_may_cross_the_date_line() -> None:
    model, frame = cached_sphere_model(), sphere_rows()
    data = predict_grid(model, DATE_LINE, spacing=1)
    assert data["mean"].dims == ("lat", "lon")
    np.testing.assert_allclose(data["lon"], np.arange(170, 190) + 0.5)
    assert data.rio.crs.to_epsg() == 4326
    assert data["lon"].attrs["units"] == "degrees_east"
    same = predict_grid(model, (170, 190, -10, 10), spacing=1)
    np.testing.assert_allclose(same["mean"], data["mean"])
    mean = model.predict(pd.DataFrame({"lon": -179.5, "lat": data["lat"]}))
    np.testing.assert_allclose(data["mean"].sel(lon=180.5), mean)
    of_array = make_estimator(coordinates=(0, 1), **FAST)
    of_array.fit(frame[["lon", "lat"]].to_numpy(), frame["height"])
    same = predict_grid(of_array, DATE_LINE, spacing=1)
    assert same["mean"].dims == ("y", "x")
    assert same.rio.crs.to_epsg() == 4326
    np.testing.assert_allclose(same["mean"].values, data["mean"].values)


def test_the_region_of_the_rows_is_the_default() -> None:
    frame, shape = stations(), (3, 4)
    X = frame[["x", "y"]]
    expected = [X["x"].min(), X["x"].max(), X["y"].min(), X["y"].max()]
    for rows in (X, X.to_numpy()):
        model = make_estimator(n_neighbors=8, **FAST).fit(rows, frame["height"])
        found = edges_of(predict_grid(model, shape=shape), "x", "y")
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    # It may cross the date line, and rows all around have all longitudes.
    frame = sphere_rows()
    lon, lat = np.mod(frame["lon"], 360), frame["lat"]
    found = edges_of(predict_grid(sphere_model(n_neighbors=8), shape=shape), "lon", "lat")
    np.testing.assert_allclose(found, [lon.min(), lon.max(), lat.min(), lat.max()], atol=1e-5)
    random = np.random.default_rng(0)
    places = np.stack([random.uniform(-180, 180, 400), random.uniform(-60, 60, 400)], axis=-1)
    model = make_estimator(coordinates=(0, 1), n_neighbors=8, **FAST).fit(places, places[:, 1])
    np.testing.assert_allclose(edges_of(predict_grid(model, shape=(2, 9)), "x"), [-180, 180])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantiles": (0.5, 1.0)}, "different numbers between 0 and 1"),
        ({"crs": "EPSG:0"}, "crs must be a coordinate reference system"),
        ({"coordinates": ("x", "z")}, "coordinates must name columns of the model. Got 'z'"),
        ({"region": None}, r"a model that keeps no rows.*give region, or --region"),
        ({"region": (0, 1, 2)}, "four finite numbers: west, east, south, north"),
        ({"region": (10, 0, 40, 45)}, "west below east"),
        ({"region": (0, 1, 3, 2)}, "south below north"),
        ({"region": (0, 361, 2, 3)}, "at most 360° of longitude"),
        ({"region": (0, 1, 2, 91)}, "latitudes from −90° to 90°"),
        ({"spacing": None}, "either a spacing or a shape"),
        ({"spacing": 0}, "spacing must be a positive number"),
        ({"spacing": 4}, "at least two cells in each direction. Got a spacing of 4 for a region"),
        ({"spacing": None, "shape": (1, 5)}, r"shape\[0\] must be an integer of at least 2"),
        ({"spacing": 1e-6}, "at most 500,000,000 cells. Got 5,000,000 × 10,000,000"),
    ],
)
def test_impossible_maps_are_refused(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"region": REGION, "spacing": 1} | changes
    model = cached_sphere_model() if "°" in message else cached_plane_model()
    with pytest.raises(UserError, match=message):
        predict_grid(model, **settings)


def test_models_that_have_no_map_and_missing_packages_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = stations()
    for X, y, message in (
        (frame[["x", "y"]], frame[["height", "x"]], "A map shows one target. Got a model of 2"),
        (frame[["x", "y"]].set_axis(["mean", "y"], axis=1), frame["x"], "Got 'mean'; rename it"),
    ):
        with pytest.raises(UserError, match=message):
            predict_grid(make_estimator(**FAST).fit(X, y), REGION, spacing=1)
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(UserError, match=r'pip install "sswim\[maps\]"'):
        predict_grid(cached_plane_model(), REGION, spacing=1)


open_geotiff: Callable[[Path], Any] = rioxarray.open_rasterio


@pytest.fixture(scope="module")
def map_data() -> xarray.Dataset:
    return predict_grid(cached_plane_model(), REGION, spacing=0.5, crs="EPSG:3035")


def test_a_geotiff_has_the_north_up_and_named_bands(
    map_data: xarray.Dataset, tmp_path: Path
) -> None:
    path = tmp_path / "map.tif"
    write_grid(map_data, path)
    with open_geotiff(path) as found:
        assert found.rio.crs.to_epsg() == 3035
        assert found.rio.bounds() == (0, 40, 10, 45)
        assert found.y.values[0] > found.y.values[-1]
        assert np.isnan(found.rio.nodata)
        quantiles = ("quantile 0.05", "quantile 0.5", "quantile 0.95")
        assert found.attrs["long_name"] == ("mean", "std", *quantiles)
        np.testing.assert_array_equal(found.values[0][::-1], map_data["mean"])
        np.testing.assert_array_equal(found.values[1][::-1], map_data["std"])
        np.testing.assert_array_equal(found.values[2:, ::-1], map_data["quantiles"])
    assert [file.name for file in tmp_path.iterdir()] == ["map.tif"]


def test_a_netcdf_file_holds_the_dataset(map_data: xarray.Dataset, tmp_path: Path) -> None:
    path = tmp_path / "map.nc"
    write_grid(map_data, path)
    with xarray.open_dataset(path, decode_coords="all") as found:
        xarray.testing.assert_equal(found, map_data)
        assert found.rio.crs.to_epsg() == 3035
        assert found["x"].attrs == map_data["x"].attrs
        assert found.attrs["Conventions"] == "CF-1.8"


def test_maps_without_reference_system_and_quantiles_can_be_written(tmp_path: Path) -> None:
    plain = predict_grid(cached_plane_model(), REGION, shape=(2, 3), quantiles=())
    write_grid(plain, tmp_path / "map.tiff")
    with open_geotiff(tmp_path / "map.tiff") as found:
        assert found.rio.crs is None
        assert found.attrs["long_name"] == ("mean", "std")


def test_an_older_file_stays_if_writing_fails_and_other_formats_are_refused(
    map_data: xarray.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise OSError("disk full")

    path = tmp_path / "map.nc"
    path.write_text("old")
    monkeypatch.setattr(xarray.Dataset, "to_netcdf", fail)
    with pytest.raises(OSError, match="disk full"):
        write_grid(map_data, path)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["map.nc"]
    with pytest.raises(UserError, match=r"must end in \.tif, \.tiff, \.nc, \.nc4"):
        write_grid(map_data, tmp_path / "map.png")
