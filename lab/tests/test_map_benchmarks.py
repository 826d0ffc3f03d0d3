"""The benchmark scripts of maps: their data, tables and pictures, never the errors themselves."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import geotiff_picture
import map_blocks
import rioxarray
import xarray
from builders.maps import sphere_model

from sswim.estimator.evaluation import Scores
from sswim.maps import predict_grid, write_grid


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
