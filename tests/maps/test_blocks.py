"""Blocks of the plane and of the sphere."""

from __future__ import annotations

import numpy as np
import pytest

from sswim.base.validation import UserError
from sswim.maps.blocks import plane_blocks, sphere_blocks


def one(lon: float, lat: float, spacing: float = 10) -> int:
    return int(sphere_blocks(np.array([[lon, lat]], dtype=np.float64), spacing)[0])


def test_a_rectangle_is_cut_into_blocks() -> None:
    points = np.array([[0, 0], [1, 0], [9, 0], [0, 3], [9.9, 4], [10, 4]], dtype=np.float64)
    by_shape = plane_blocks(points, shape=(2, 5))
    assert by_shape.tolist() == [0, 0, 4, 5, 9, 9]
    assert plane_blocks(points, spacing=2).tolist() == by_shape.tolist()


def test_the_spacing_is_adjusted_to_the_rectangle() -> None:
    points = np.stack([np.linspace(0, 10, 1001), np.zeros(1001)], axis=-1)
    counts = np.bincount(plane_blocks(points, spacing=3.1))
    assert len(counts) == 3
    assert np.ptp(counts) <= 1
    assert set(plane_blocks(points, spacing=100).tolist()) == {0}


def test_turns_of_the_longitude_are_the_same_block() -> None:
    assert one(-179.9, 5) == one(180.1, 5) == one(540.1, 5)
    assert one(-1e-16, 5) == one(-1, 5)
    assert one(179.9, 5) != one(-179.9, 5, spacing=9)


def test_the_sphere_is_covered_by_equal_areas() -> None:
    random = np.random.default_rng(0)
    n = 200_000
    points = np.stack(
        [random.uniform(-180, 180, n), np.rad2deg(np.arcsin(random.uniform(-1, 1, n)))], axis=-1
    )
    blocks = sphere_blocks(points, 15)
    counts = np.bincount(blocks)
    assert counts.min() > 0
    assert counts.max() < 1.7 * counts.min()
    poles = blocks[np.abs(points[:, 1]) > 75]
    assert len(set(poles.tolist())) <= 8  # few at the poles, of many degrees each


def test_both_poles_have_blocks() -> None:
    assert one(0, -90) == 0
    assert one(123, 90, spacing=180) == one(-123, -90, spacing=180) or one(123, 90) > one(0, 0)


def test_latitudes_beyond_the_poles_are_refused() -> None:
    with pytest.raises(UserError, match="are longitude and latitude in this order"):
        one(10, 170)
