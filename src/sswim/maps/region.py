"""Rectangles of a map, and the cells that they are cut into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from sswim.base.errors import UserError
from sswim.base.validation import require_integer

MAX_CELLS = 500_000_000
"""Largest number of cells of a map: a slip in the spacing must not fill the memory."""


@dataclass(frozen=True)
class Region:
    """A rectangle of the plane, or of longitudes and latitudes."""

    west: float
    east: float
    south: float
    north: float


@dataclass(frozen=True)
class Cells:
    """The middles of the cells of a region, which is their outer edge."""

    x: Float64[np.ndarray, " columns"]
    """From west to east."""
    y: Float64[np.ndarray, " rows"]
    """From south to north."""

    def __len__(self) -> int:
        return len(self.x) * len(self.y)

    def points(self, start: int, stop: int) -> Float64[np.ndarray, "n 2"]:
        """Return some of the middles, which are numbered row by row from the south-west."""
        row, column = np.divmod(np.arange(start, min(stop, len(self))), len(self.x))
        return np.stack([self.x[column], self.y[row]], axis=-1)


def make_region(values: Sequence[int | float], *, geographic: bool) -> Region:
    """Check the edges of a region: west, east, south, north.

    Args:
        values: The edges.
        geographic: Whether they are degrees. A region may then cross the date line, with a west
            edge beyond the east one (170, −170) or an east edge beyond 180 (170, 190).
    """
    if len(values) != 4 or not np.isfinite(np.asarray(values, dtype=np.float64)).all():
        raise UserError(
            f"region must be four finite numbers: west, east, south, north. Got {values!r}."
        )
    west, east, south, north = map(float, values)
    if geographic and east < west:
        east += 360
    if west >= east or south >= north:
        raise UserError(
            "region must be west, east, south, north, with west below east and south below north. "
            f"Got {values!r}."
        )
    if geographic and (east - west > 360 or south < -90 or north > 90):
        raise UserError(
            "A region in degrees must span at most 360° of longitude, and latitudes from −90° to "
            f"90°. Got {values!r}."
        )
    return Region(west, east, south, north)


def make_cells(
    region: Region, spacing: int | float | None = None, shape: tuple[int, int] | None = None
) -> Cells:
    """Cut a region into cells.

    Args:
        region: The region.
        spacing: Side of a cell, adjusted so that a whole number of cells fits.
        shape: Numbers of cells from south to north and from west to east, instead of ``spacing``.
    """
    if (spacing is None) == (shape is None):
        raise UserError(
            f"Cells need either a spacing or a shape. Got spacing={spacing!r} and shape={shape!r}."
        )
    if spacing is not None:
        if not (np.isfinite(spacing) and spacing > 0):
            raise UserError(f"spacing must be a positive number. Got {spacing!r}.")
        rows = round((region.north - region.south) / spacing)
        columns = round((region.east - region.west) / spacing)
        if min(rows, columns) < 2:
            raise UserError(
                "A map must have at least two cells in each direction. Got a spacing of "
                f"{spacing:g} for a region of {region.east - region.west:g} by "
                f"{region.north - region.south:g}; choose a smaller one."
            )
    else:
        assert shape is not None
        rows, columns = shape
        require_integer("shape[0]", rows, 2)
        require_integer("shape[1]", columns, 2)
    if rows * columns > MAX_CELLS:
        raise UserError(
            f"A map can have at most {MAX_CELLS:,} cells. Got {rows:,} × {columns:,}; choose a "
            "larger spacing, or make the map in parts."
        )
    return Cells(
        _middles(region.west, region.east, columns), _middles(region.south, region.north, rows)
    )


def _middles(low: float, high: float, n: int) -> Float64[np.ndarray, " n"]:
    """Return the middles of equal parts of an interval."""
    return low + (high - low) * (np.arange(n) + 0.5) / n
