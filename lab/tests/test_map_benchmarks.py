"""The benchmark scripts of maps: their data, tables and pictures, never the errors themselves."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import get_args

import date_line
import geotiff_picture
import map_blocks
import numpy as np
import pytest
import rioxarray
import xarray
from builders.maps import FAST, sphere_model

from sswim.estimator.evaluation import Scores
from sswim.maps import predict_grid, write_grid


def test_the_function_has_no_date_line_and_one_value_at_the_pole() -> None:
    lat = np.linspace(-30, 30, 7)
    west, east = (date_line.truth(np.full(7, lon), lat) for lon in (-180.0, 180.0))
    np.testing.assert_allclose(west, east)
    pole = date_line.truth(np.linspace(-180, 180, 7), np.full(7, 90.0))
    np.testing.assert_allclose(pole, pole[0])


@pytest.mark.parametrize("place", ["date line", "pole"])
def test_both_sorts_of_coordinates_are_scored(place: date_line.Place) -> None:
    settings = {name: value for name, value in FAST.items() if name != "random_state"}
    jumps = []
    for kind in get_args(date_line.Kind):
        model = date_line.fit(place, kind, 0, settings)
        scores = date_line.score(model, place)
        assert ("jump" in scores) == (place == "date line")
        jumps.append(scores.get("jump", 0.0))
        if place == "date line":
            grid = date_line.map_across_the_line(model, kind)
            assert (float(grid["lon"][0]), float(grid["lon"][-1])) == (150.25, 209.75)
    if place == "date line":
        assert jumps[0] < 1e-3 < jumps[1]


def test_the_table_of_the_date_line_has_means_over_seeds() -> None:
    scores = {"rmse_near": 0.1, "rmse_elsewhere": 0.2, "coverage_near": 0.9}
    lines = [
        {"place": place, "coordinates": kind, **scores, "coverage_elsewhere": seed}
        for place in ("date line", "pole")
        for kind in ("sphere", "plain")
        for seed in (0.8, 1.0)
    ]
    table = date_line.table(lines).split("\n")
    assert len(table) == 6
    assert table[2] == "| date line | sphere | 0.10 | 0.20 | 0.90 | 0.90 | – |"


def test_the_table_of_blocks_has_all_sorts_of_rows() -> None:
    scores = asdict(Scores(1.0, -2.0, 0.9, 0.9, 100))
    lines = [
        {"data": name, "rows": 2000, "spacing": spacing, "blocks": scores, "random": scores}
        | {"other_rows": scores}
        for name, spacings in map_blocks.SPACINGS.items()
        for spacing in spacings
    ]
    table = map_blocks.table(lines).split("\n")
    assert len(table) == 2 + 3 + 4
    assert "| date line, 2,000 rows | blocks of 10° | 1 | −2.00 | 0.900 |" in table


def test_a_geotiff_is_drawn(tmp_path: Path) -> None:
    grid = predict_grid(sphere_model(), (170, -170, -10, 10), 2)
    write_grid(grid, tmp_path / "map.tif")
    bands = rioxarray.open_rasterio(tmp_path / "map.tif")
    assert isinstance(bands, xarray.DataArray)
    first = geotiff_picture.draw(bands, "m").axes[0]
    assert first.get_title(loc="left") == "mean, EPSG:4326"
    bands.close()
