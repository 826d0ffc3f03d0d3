"""Points of GeoDataFrames as columns."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
from shapely import LineString, Point, Polygon

from sswim.tables import TableError, split_geometry
from sswim.tables.frames import GeoColumns


def places(crs: str | None = "EPSG:4326", **columns: Any) -> gpd.GeoDataFrame:
    data = {"rain": [1.0, 2.0, 3.0]} | columns
    points = gpd.points_from_xy([170, 180, -170], [10, 20, 30])
    return gpd.GeoDataFrame(data, geometry=points, crs=crs, index=[5, 6, 7])


def split(frame: gpd.GeoDataFrame, to_crs: str | None = None) -> GeoColumns:
    found = split_geometry(frame, to_crs)
    assert found is not None
    return found


def test_degrees_become_lon_and_lat() -> None:
    frame = places()
    found = split(frame)
    assert type(found.frame) is pd.DataFrame
    assert list(found.frame.columns) == ["lon", "lat", "rain"]
    assert list(found.frame.index) == [5, 6, 7]
    assert found.frame["lon"].tolist() == [170, 180, -170]
    assert found.frame["lat"].tolist() == [10, 20, 30]
    assert found.coordinates == ("lon", "lat")
    assert found.is_geographic
    assert found.crs_wkt is not None
    assert "WGS 84" in found.crs_wkt
    assert list(frame.columns) == ["rain", "geometry"]  # left as it was


@pytest.mark.parametrize("crs", ["EPSG:3035", None])
def test_other_coordinates_become_x_and_y(crs: str | None) -> None:
    found = split(places(crs))
    assert found.coordinates == ("x", "y")
    assert not found.is_geographic
    assert (found.crs_wkt is None) == (crs is None)


def test_coordinates_are_converted_to_those_of_a_model() -> None:
    frame = places()
    projected = frame.to_crs("EPSG:3832")  # the Pacific
    found = split(projected, split(frame).crs_wkt)
    np.testing.assert_allclose(found.frame["lat"], [10, 20, 30])
    np.testing.assert_allclose(found.frame["lon"] % 360, [170, 180, 190])
    with pytest.raises(TableError, match="set it with set_crs"):
        split_geometry(places(None), split(frame).crs_wkt)


def test_the_active_geometry_may_have_any_name() -> None:
    found = split(places().rename_geometry("where"))
    assert list(found.frame.columns) == ["lon", "lat", "rain"]


def test_other_objects_are_not_geometries() -> None:
    for other in (pd.DataFrame({"geometry": [1.0]}), np.zeros((2, 2)), None):
        assert split_geometry(other) is None


def test_geopandas_is_not_imported_for_other_frames() -> None:
    script = (
        "import sys, pandas; from sswim.tables.frames import split_geometry; "
        "split_geometry(pandas.DataFrame({'a': [1.0]})); assert 'geopandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ([Point(0, 1), None, Point(1, 1)], "Got 1 missing ones, the first in row 2"),
        ([Point(0, 1), Point(0, 0), Point()], "Got 1 empty ones, the first in row 3"),
        ([Point(0, 1), LineString([(0, 0), (1, 1)]), Point(1, 1)], "Got 'LineString' in 1 rows"),
        ([Polygon([(0, 0), (1, 0), (0, 1)])] * 3, "Got 'Polygon' in 3 rows"),
    ],
)
def test_rows_without_a_point_are_refused(geometry: list[Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        split_geometry(gpd.GeoDataFrame({"rain": [1, 2, 3]}, geometry=geometry))


def test_a_frame_without_an_active_geometry_is_refused() -> None:
    with pytest.raises(TableError, match="choose its column with set_geometry"):
        split_geometry(gpd.GeoDataFrame({"rain": [1, 2]}))


def test_names_that_are_taken_are_refused() -> None:
    with pytest.raises(TableError, match="Got 'lat', which the frame already has"):
        split_geometry(places(lat=[1, 2, 3]))
    assert split(places("EPSG:3035", lat=[1, 2, 3])).coordinates == ("x", "y")


def test_a_second_geometry_is_refused() -> None:
    frame = places()
    frame["other"] = frame.geometry.translate(1)
    with pytest.raises(TableError, match="Got further ones in 'other'"):
        split_geometry(frame)
