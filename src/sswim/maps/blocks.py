"""Blocks of the plane and of the sphere."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from sswim.base.errors import UserError


def plane_blocks(
    points: Float64[np.ndarray, "N 2"],
    spacing: int | float | None = None,
    shape: tuple[int, int] | None = None,
) -> Int64[np.ndarray, " N"]:
    """Return the number of each point's block of the rectangle around the points.

    Args:
        points: Coordinates of the points: east and north.
        spacing: Side of a block, adjusted so that a whole number of blocks covers the rectangle.
        shape: Numbers of blocks from south to north and from west to east, instead of ``spacing``.
    """
    low, extent = points.min(0), np.ptp(points, axis=0)
    if spacing is not None:
        counts = np.maximum(np.round(extent / spacing), 1)
    else:
        assert shape is not None
        counts = np.array(shape[::-1], dtype=np.float64)
    size = np.where(extent > 0, extent, 1.0) / counts
    column, row = np.minimum(np.floor((points - low) / size), counts - 1).T
    return (row * counts[0] + column).astype(np.int64)


def sphere_blocks(
    points: Float64[np.ndarray, "N 2"], spacing: int | float
) -> Int64[np.ndarray, " N"]:
    """Return the number of each point's block of the sphere.

    Bands of latitude are cut into blocks that are as wide, in kilometres, as they are high: near
    the poles there are fewer of them, each of more degrees of longitude. The cuts begin at the
    meridian of Greenwich, and no block is narrower than the others at the date line.

    Args:
        points: Longitudes and latitudes in degrees; longitudes may have any number of turns.
        spacing: Height of a band in degrees, adjusted so that a whole number fits.
    """
    require_latitudes(points[:, 1])
    n_bands = max(round(180 / spacing), 1)
    height = 180 / n_bands
    band = np.minimum(np.floor((points[:, 1] + 90) / height), n_bands - 1).astype(np.int64)
    middles = np.deg2rad(-90 + height * (np.arange(n_bands) + 0.5))
    counts = np.maximum(np.round(360 * np.cos(middles) / height), 1).astype(np.int64)
    first = np.cumsum(counts) - counts
    # The remainder of −1e-15 is 360, hence the minimum.
    part = np.floor(np.mod(points[:, 0], 360.0) / 360.0 * counts[band])
    return first[band] + np.minimum(part, counts[band] - 1).astype(np.int64)


def require_latitudes(latitudes: Float64[np.ndarray, " N"]) -> None:
    """Raise an error unless latitudes lie between −90° and 90°."""
    low, high = float(latitudes.min()), float(latitudes.max())
    if low < -90 or high > 90:
        raise UserError(
            f"Latitudes must lie between −90° and 90°. Got {low:g} to {high:g}; are longitude and "
            "latitude in this order?"
        )
