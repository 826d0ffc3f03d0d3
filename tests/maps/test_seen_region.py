"""The region of the rows of a model."""

from __future__ import annotations

import numpy as np
import pytest
from builders.maps import FAST, plane_model, sphere_model, sphere_rows, stations

from sswim import SSWIMRegressor
from sswim.base.validation import UserError
from sswim.maps import predict_grid
from sswim.maps.grid import Region, seen_region
from sswim.maps.grid_columns import grid_columns


def region_of(model: SSWIMRegressor) -> Region:
    return seen_region(model, grid_columns(model, None, None))


def test_the_rectangle_of_the_rows_is_the_default() -> None:
    frame = stations()
    found = region_of(plane_model(n_neighbors=8))
    expected = [frame["x"].min(), frame["x"].max(), frame["y"].min(), frame["y"].max()]
    np.testing.assert_allclose([found.west, found.east, found.south, found.north], expected)
    arrays = SSWIMRegressor(n_neighbors=8, **FAST).fit(frame[["x", "y"]].to_numpy(), frame["x"])
    assert region_of(arrays).west == pytest.approx(found.west)
    data = predict_grid(plane_model(n_neighbors=8), shape=(3, 4))
    assert data["x"].values[0] > found.west


def test_the_rectangle_may_cross_the_date_line() -> None:
    frame = sphere_rows()
    longitudes = np.mod(frame["lon"], 360)
    found = region_of(sphere_model(n_neighbors=8))
    expected = [longitudes.min(), longitudes.max(), frame["lat"].min(), frame["lat"].max()]
    np.testing.assert_allclose(
        [found.west, found.east, found.south, found.north], expected, atol=1e-6
    )


def test_rows_all_around_have_all_longitudes() -> None:
    random = np.random.default_rng(0)
    X = np.stack([random.uniform(-180, 180, 400), random.uniform(-60, 60, 400)], axis=-1)
    model = SSWIMRegressor(coordinates=(0, 1), n_neighbors=8, **FAST).fit(X, X[:, 1])
    found = region_of(model)
    assert (found.west, found.east) == (-180, 180)


def test_a_model_without_rows_needs_a_region() -> None:
    with pytest.raises(UserError, match=r"a model that keeps no rows.*give region, or --region"):
        region_of(plane_model())
