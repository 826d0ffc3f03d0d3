from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sswim.tables import SphereColumn, TableError
from sswim.tables.columns import centre_of, points

EARTH_KM = 6371.0

LONGITUDES = st.floats(-180, 180)
LATITUDES = st.floats(-90, 90)


def some_points(n: int = 200, seed: int = 0) -> tuple[Any, Any]:
    """Draw points that are spread evenly over the sphere, with both poles and the date line."""
    random = np.random.default_rng(seed)
    longitude = random.uniform(-180, 180, n)
    latitude = np.degrees(np.arcsin(random.uniform(-1, 1, n)))
    longitude[:4], latitude[:4] = [180, -180, 0, 77], [10, 10, 90, -90]
    return longitude, latitude


def great_circle(longitude: Any, latitude: Any) -> Any:
    """Return the angles between all points, by the haversine formula."""
    east, north = np.radians(longitude), np.radians(latitude)
    half = np.sin((north[:, None] - north) / 2) ** 2
    half += np.cos(north[:, None]) * np.cos(north) * np.sin((east[:, None] - east) / 2) ** 2
    return 2 * np.arcsin(np.sqrt(np.clip(half, 0, 1)))


def distances(x: Any) -> Any:
    return np.linalg.norm(x[:, None] - x, axis=-1)


@pytest.mark.parametrize("centre", [(0.0, 0.0), (179.9, 0.0), (-70.0, 35.0), (10.0, 90.0)])
def test_distances_are_chords_of_great_circles(centre: tuple[float, float]) -> None:
    """A chord of an angle a has the length 2 sin(a / 2), wherever the sphere is seen from."""
    longitude, latitude = some_points()
    found = SphereColumn("lon", "lat", centre).encode(longitude, latitude)
    assert np.allclose(np.linalg.norm(found, axis=1), 1.0)
    expected = 2 * np.sin(great_circle(longitude, latitude) / 2)
    assert np.allclose(distances(found), expected, atol=1e-12)


@given(
    longitude=LONGITUDES,
    latitude=LATITUDES,
    turns=st.integers(-3, 3),
    centre=st.tuples(LONGITUDES, LATITUDES),
)
def test_a_whole_turn_changes_nothing(
    longitude: float, latitude: float, turns: int, centre: tuple[float, float]
) -> None:
    column = SphereColumn("lon", "lat", centre)
    here, there = column.encode(
        np.array([longitude, longitude + 360 * turns]), np.array([latitude, latitude])
    )
    assert np.allclose(here, there, atol=1e-12)


def test_a_pole_is_one_point_whatever_its_longitude() -> None:
    for pole in (-90.0, 90.0):
        found = SphereColumn("lon", "lat", (20.0, 30.0)).encode(
            np.array([-180.0, 0.0, 33.0]), np.full(3, pole)
        )
        assert np.allclose(found, found[0], atol=1e-12)


@given(longitude=LONGITUDES, latitude=LATITUDES)
def test_the_centre_is_straight_up_and_axes_point_east_and_north(
    longitude: float, latitude: float
) -> None:
    column = SphereColumn("lon", "lat", (longitude, latitude))
    step = 1e-3
    nearer = latitude - np.sign(latitude) * step  # not beyond a pole
    here, east, north = column.encode(
        np.array([longitude, longitude + step, longitude]),
        np.array([latitude, latitude, nearer]),
    )
    assert np.allclose(here, [0, 0, 1], atol=1e-12)
    wide = np.radians(step) * np.cos(np.radians(latitude))
    assert east[0] == pytest.approx(wide, rel=1e-6, abs=1e-15)
    assert abs(east[1]) < 1e-9
    assert north[1] == pytest.approx(np.radians(nearer - latitude), rel=1e-6)
    assert abs(north[0]) < 1e-12


def test_in_a_small_region_the_inputs_are_kilometres_on_a_map() -> None:
    random = np.random.default_rng(0)
    longitude, latitude = random.uniform(151, 152, 100), random.uniform(-34, -33, 100)
    column = SphereColumn("lon", "lat", centre_of(longitude, latitude))
    east, north, up = EARTH_KM * column.encode(longitude, latitude).T
    assert np.ptp(up) < 1.0
    assert np.ptp(east) > 50
    assert np.allclose(north - north[0], 111.19 * (latitude - latitude[0]), atol=0.7)


def test_the_date_line_is_nothing_special() -> None:
    random = np.random.default_rng(0)
    longitude, latitude = random.uniform(-5, 5, 100), random.uniform(-5, 5, 100)
    here = SphereColumn("lon", "lat", centre_of(longitude, latitude)).encode(longitude, latitude)
    moved = np.mod(longitude + 180 + 180, 360) - 180  # from −180 to −175 and from 175 to 180
    assert np.ptp(moved) > 350
    there = SphereColumn("lon", "lat", centre_of(moved, latitude)).encode(moved, latitude)
    assert np.allclose(here, there, atol=1e-12)


def test_the_centre_is_the_middle_of_known_points() -> None:
    nothing = np.array([np.nan, np.nan])
    assert centre_of(nothing, nothing) == (0.0, 0.0)
    known = centre_of(np.array([170.0, np.nan, -170.0, 5.0]), np.array([10.0, 3.0, 10.0, np.nan]))
    assert np.abs(known[0]) == pytest.approx(180.0)
    assert 10.0 < known[1] < 11.0  # a great circle passes north of the parallel
    longitude, latitude = some_points(5000)
    assert centre_of(longitude, latitude) == (0.0, 0.0)  # points all around have no middle


def test_missing_degrees_make_a_missing_point() -> None:
    found = SphereColumn("lon", "lat").encode(
        np.array([np.nan, 1.0, 1.0]), np.array([1, np.nan, 1.0])
    )
    assert np.isnan(found[:2]).all()
    assert np.isfinite(found[2]).all()


def test_latitudes_are_at_most_90_degrees() -> None:
    with pytest.raises(TableError, match=r"from −90 to 90. Got 2 others in column 'south'; .*name"):
        SphereColumn("east", "south").encode(np.zeros(4), np.array([-90.0, 90.1, -100.0, np.nan]))


def test_inputs_have_the_names_of_both_columns() -> None:
    assert SphereColumn("lon", "lat").inputs == ["lon, lat east", "lon, lat north", "lon, lat up"]


def test_points_are_those_of_the_globe() -> None:
    longitude, latitude = np.array([0.0, 90.0, 0.0, 180.0]), np.array([0.0, 0.0, 90.0, 0.0])
    expected = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0]]
    assert np.allclose(points(longitude, latitude), expected)
