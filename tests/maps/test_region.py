"""Regions and their cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sswim.base.validation import UserError
from sswim.maps.grid import Region, make_cells, make_region

SQUARE = Region(0.0, 10.0, 40.0, 45.0)


def test_cells_have_their_middles_inside_the_region() -> None:
    cells = make_cells(SQUARE, spacing=1)
    assert (len(cells.y), len(cells.x), len(cells)) == (5, 10, 50)
    np.testing.assert_allclose(cells.x, np.arange(10) + 0.5)
    np.testing.assert_allclose(cells.y, np.arange(40, 45) + 0.5)
    same = make_cells(SQUARE, shape=(5, 10))
    np.testing.assert_array_equal(same.x, cells.x)
    assert len(make_cells(SQUARE, spacing=3).x) == 3  # the spacing is adjusted


def test_cells_are_numbered_row_by_row() -> None:
    cells = make_cells(SQUARE, spacing=1)
    points = cells.points(0, 1000)
    assert points.shape == (50, 2)
    np.testing.assert_allclose(points[:11, 0], [*(np.arange(10) + 0.5), 0.5])
    np.testing.assert_allclose(points[9:11, 1], [40.5, 41.5])
    np.testing.assert_array_equal(cells.points(7, 23), points[7:23])


def test_regions_may_cross_the_date_line() -> None:
    expected = Region(170.0, 190.0, -10.0, 10.0)
    assert make_region((170, -170, -10, 10), geographic=True) == expected
    assert make_region((170, 190, -10, 10), geographic=True) == expected
    assert make_region((-180, 180, -90, 90), geographic=True).east == 180


@pytest.mark.parametrize(
    ("values", "geographic", "message"),
    [
        ((0, 1, 2), False, "four finite numbers: west, east, south, north"),
        ((0, np.nan, 2, 3), False, "four finite numbers"),
        ((170, -170, 0, 1), False, "west below east"),
        ((0, 1, 3, 2), True, "south below north"),
        ((0, 361, 2, 3), True, "at most 360° of longitude"),
        ((0, 1, 2, 91), True, "latitudes from −90° to 90°"),
    ],
)
def test_impossible_regions_are_refused(values: Any, geographic: bool, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_region(values, geographic=geographic)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "either a spacing or a shape"),
        ({"spacing": 1, "shape": (3, 3)}, "either a spacing or a shape"),
        ({"spacing": 0}, "spacing must be a positive number"),
        ({"spacing": 4}, "at least two cells in each direction. Got a spacing of 4 for a region"),
        ({"shape": (1, 5)}, r"shape\[0\] must be an integer of at least 2"),
        ({"spacing": 1e-6}, "at most 500,000,000 cells. Got 5,000,000 × 10,000,000"),
    ],
)
def test_impossible_cells_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_cells(SQUARE, **changes)
