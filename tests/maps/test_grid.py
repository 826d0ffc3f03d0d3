"""Predictions on the cells of a map."""

from __future__ import annotations

import sys
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from builders.maps import FAST, plane_model, sphere_model, sphere_rows, stations

from sswim import SSWIMRegressor
from sswim.base.validation import UserError
from sswim.maps import grid, predict_grid, write_grid

REGION = (0, 10, 40, 45)


def cells_of(data: Any) -> pd.DataFrame:
    """Return the middles of the cells as rows, row by row."""
    x, y = np.meshgrid(data["x"], data["y"])
    return pd.DataFrame({"x": x.ravel(), "y": y.ravel()})


def test_the_map_holds_the_predictions_of_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "CHUNK_ROWS", 7)
    model = plane_model()
    data = predict_grid(model, REGION, spacing=1, quantiles=(0.1, 0.9))
    assert dict(data.sizes) == {"y": 5, "x": 10, "quantile": 2}
    mean, std = model.predict(cells_of(data), return_std=True)
    quantiles = model.predict_quantiles(cells_of(data), (0.1, 0.9))
    np.testing.assert_allclose(data["mean"].values.ravel(), mean)
    np.testing.assert_allclose(data["std"].values.ravel(), std)
    np.testing.assert_allclose(data["quantiles"].values.reshape(2, -1).T, quantiles)
    assert data["quantiles"].dims == ("quantile", "y", "x")
    assert data["quantile"].values.tolist() == [0.1, 0.9]


def test_the_spread_may_be_that_of_the_function() -> None:
    model = plane_model(output_warp="sinh-arcsinh")
    data = predict_grid(model, REGION, shape=(3, 4), include_noise=False, quantiles=())
    mean, std = model.predict(cells_of(data), return_std=True, include_noise=False)
    np.testing.assert_allclose(data["mean"].values.ravel(), mean)
    np.testing.assert_allclose(data["std"].values.ravel(), std)
    assert "quantiles" not in data
    assert data["std"].attrs["long_name"] == "standard deviation of the function"


def test_the_reference_system_is_written() -> None:
    model = plane_model()
    metres = predict_grid(model, REGION, spacing=1, crs="EPSG:3035")
    assert metres.rio.crs.to_epsg() == 3035
    assert metres["x"].attrs["standard_name"] == "projection_x_coordinate"
    assert metres["x"].attrs["units"] == "metre"
    degrees = predict_grid(model, REGION, spacing=1, crs="EPSG:4326")
    assert degrees["x"].attrs["units"] == "degrees_east"
    assert degrees["y"].attrs["units"] == "degrees_north"
    unknown = predict_grid(model, REGION, spacing=1)
    assert unknown.rio.crs is None
    assert unknown["x"].attrs["axis"] == "X"


def test_models_of_arrays_have_columns_by_number() -> None:
    frame = stations()
    X = np.stack([frame["x"], np.cos(frame["x"]), frame["y"]], axis=-1)
    model = SSWIMRegressor(**FAST).fit(X, frame["height"])
    data = predict_grid(model, REGION, shape=(2, 3), coordinates=(0, 2), at={1: 0.5})
    assert data["mean"].dims == ("y", "x")
    assert data.coords["1"] == 0.5
    cells = cells_of(data)
    rows = np.stack([cells["x"], np.full(6, 0.5), cells["y"]], axis=-1)
    np.testing.assert_allclose(data["mean"].values.ravel(), model.predict(rows))


def test_other_columns_have_fixed_values() -> None:
    frame = stations().assign(depth=1.0)
    frame["depth"] = np.arange(len(frame)) % 7
    model = SSWIMRegressor(**FAST).fit(frame[["depth", "x", "y"]], frame["height"])
    data = predict_grid(model, REGION, spacing=1, coordinates=("x", "y"), at={"depth": "3"})
    assert data.coords["depth"] == 3.0
    rows = cells_of(data).assign(depth=3.0)[["depth", "x", "y"]]
    np.testing.assert_allclose(data["mean"].values.ravel(), model.predict(rows))
    with pytest.raises(UserError, match="Got a model of 3 columns; give coordinates"):
        predict_grid(model, REGION, spacing=1)
    names = {"coordinates": ("x", "y")}
    for at, message in (
        (None, "Got none for 'depth'; give them with at"),
        ({"deep": 1}, "at must name columns of the model. Got 'deep'; it has 'depth', 'x', 'y'"),
        ({"depth": "low"}, "Column 'depth' must have a number. Got 'low'"),
        ({"depth": 1, "x": 1}, "A coordinate of the map has no fixed value. Got one for 'x'"),
    ):
        with pytest.raises(UserError, match=message):
            predict_grid(model, REGION, spacing=1, at=at, **names)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"quantiles": (0.5, 1.0)}, "different numbers between 0 and 1"),
        ({"quantiles": (0.5, 0.5)}, "different numbers between 0 and 1"),
        ({"crs": "EPSG:0"}, "crs must be a coordinate reference system"),
        ({"coordinates": ("x", "z")}, "coordinates must name columns of the model. Got 'z'"),
        ({"region": (10, 0, 40, 45)}, "west below east"),
        ({"spacing": None}, "either a spacing or a shape"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"region": REGION, "spacing": 1} | changes
    with pytest.raises(UserError, match=message):
        predict_grid(plane_model(), **settings)


def test_several_targets_are_refused() -> None:
    frame = stations()
    model = SSWIMRegressor(**FAST).fit(frame[["x", "y"]], frame[["height", "x"]])
    with pytest.raises(UserError, match=r"A map shows one target. Got a model of 2"):
        predict_grid(model, REGION, spacing=1)


def test_names_of_the_map_are_refused() -> None:
    frame = stations().rename(columns={"x": "mean"})
    model = SSWIMRegressor(**FAST).fit(frame[["mean", "y"]], frame["height"])
    with pytest.raises(UserError, match="Got 'mean'; rename it and fit again"):
        predict_grid(model, REGION, spacing=1)


def test_the_extra_is_named_if_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(UserError, match=r'pip install "sswim\[maps\]"'):
        predict_grid(plane_model(), REGION, spacing=1)


def test_a_map_may_cross_the_date_line() -> None:
    model = sphere_model()
    data = predict_grid(model, (170, -170, -10, 10), spacing=1)
    assert data["mean"].dims == ("lat", "lon")
    np.testing.assert_allclose(data["lon"], np.arange(170, 190) + 0.5)
    assert data.rio.crs.to_epsg() == 4326
    assert data["lon"].attrs["units"] == "degrees_east"
    same = predict_grid(model, (-190, -170, -10, 10), spacing=1)
    np.testing.assert_allclose(same["mean"], data["mean"])
    lon, lat = np.meshgrid([-179.5], data["lat"])
    mean = model.predict(pd.DataFrame({"lon": lon.ravel(), "lat": lat.ravel()}))
    np.testing.assert_allclose(data["mean"].sel(lon=180.5), mean)


def test_models_of_arrays_may_be_on_the_sphere() -> None:
    frame = sphere_rows()
    named = sphere_model()
    model = SSWIMRegressor(coordinates=(0, 1), **FAST)
    model.fit(frame[["lon", "lat"]].to_numpy(), frame["height"])
    data = predict_grid(model, (170, -170, -10, 10), spacing=2)
    assert data["mean"].dims == ("y", "x")
    assert data.rio.crs.to_epsg() == 4326
    expected = predict_grid(named, (170, -170, -10, 10), spacing=2)
    np.testing.assert_allclose(data["mean"].values, expected["mean"].values)


def test_a_geo_frame_gives_the_reference_system() -> None:
    frame = stations()
    points = gpd.points_from_xy(1e5 * frame["x"], 1e5 * frame["y"])
    rows = gpd.GeoDataFrame({"depth": frame["y"]}, geometry=points, crs="EPSG:3035")
    model = SSWIMRegressor(**FAST).fit(rows, frame["height"])
    data = predict_grid(
        model, (0, 1e6, 4e6, 4.5e6), 1e5, coordinates=("x", "y"), at={"depth": 42.0}
    )
    assert data.rio.crs.to_epsg() == 3035
    degrees = rows.assign(depth=1.0).to_crs("EPSG:4326")
    on_sphere = SSWIMRegressor(**FAST).fit(degrees[["geometry"]], frame["height"])
    assert predict_grid(on_sphere, (0, 10, 40, 45), 1).rio.crs.to_epsg() == 4326


def test_dates_and_levels_may_be_fixed() -> None:
    frame = sphere_rows()
    rows = frame[["lon", "lat"]].assign(
        date=pd.date_range("2024-01-01", periods=len(frame), freq="D"),
        kind=np.where(np.arange(len(frame)) % 3, "a", "b"),
    )
    model = SSWIMRegressor(coordinates=("lon", "lat"), **FAST).fit(rows, frame["height"])
    region = (170, -170, -10, 10)
    data = predict_grid(model, region, 5, at={"date": "2024-02-01", "kind": "b"})
    assert data["date"].values == np.datetime64("2024-02-01")
    assert data["kind"] == "b"
    stamp = {"date": pd.Timestamp("2024-02-01"), "kind": "b"}
    np.testing.assert_array_equal(data["mean"], predict_grid(model, region, 5, at=stamp)["mean"])
    lon, lat = np.meshgrid(data["lon"], data["lat"])
    cells = pd.DataFrame({"lon": lon.ravel(), "lat": lat.ravel(), **stamp})
    np.testing.assert_allclose(data["mean"].values.ravel(), model.predict(cells))
    with pytest.raises(UserError, match="must have a date or time, such as 2024-07-01"):
        predict_grid(model, region, 5, at={"date": "soon", "kind": "b"})


@pytest.mark.parametrize(
    "value", [date(2024, 2, 1), datetime(2024, 2, 1), np.datetime64("2024-02-01"), "2024-02-01"]
)
def test_a_date_may_have_any_type(value: Any) -> None:
    frame = sphere_rows()
    dates = pd.date_range("2024-01-01", periods=len(frame), freq="D")
    rows = frame[["lon", "lat"]].assign(date=dates)
    model = SSWIMRegressor(coordinates=("lon", "lat"), **FAST).fit(rows, frame["height"])
    data = predict_grid(model, (170, -170, -10, 10), 5, at={"date": value})
    assert data["date"].values == np.datetime64("2024-02-01")
    with pytest.raises(UserError, match="must have a date or time"):
        predict_grid(model, (170, -170, -10, 10), 5, at={"date": 3})


def test_times_of_the_day_and_truths_may_be_fixed(tmp_path: Path) -> None:
    frame = sphere_rows()
    rows = frame[["lon", "lat"]].assign(
        hour=[time(number % 24) for number in range(len(frame))],
        new=np.arange(len(frame)) % 3 == 0,
    )
    model = SSWIMRegressor(coordinates=("lon", "lat"), **FAST).fit(rows, frame["height"])
    data = predict_grid(model, (170, -170, -10, 10), 5, at={"hour": "13:00", "new": "true"})
    assert data["hour"] == "13:00:00"
    assert data["new"] == 1.0
    write_grid(data, tmp_path / "map.nc")


def test_a_time_without_a_zone_is_one_of_the_zone_of_the_rows() -> None:
    frame = sphere_rows()
    zone = "America/New_York"
    dates = pd.date_range("2024-01-01", periods=len(frame), freq="h", tz=zone)
    rows = frame[["lon", "lat"]].assign(date=dates)
    model = SSWIMRegressor(coordinates=("lon", "lat"), **FAST).fit(rows, frame["height"])
    region = (170, -170, -10, 10)
    local = predict_grid(model, region, 5, at={"date": "2024-01-02T03:00"})
    exact = predict_grid(model, region, 5, at={"date": pd.Timestamp("2024-01-02T03:00", tz=zone)})
    np.testing.assert_array_equal(local["mean"], exact["mean"])
    assert local["date"].values == np.datetime64("2024-01-02T08:00")  # UTC
