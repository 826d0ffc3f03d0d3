"""Points of a GeoDataFrame as two columns of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from sswim.base.frame_kinds import is_geo_frame
from sswim.tables.table_io import TableError, quote_names

GEOGRAPHIC_NAMES = ("lon", "lat")
"""Names of the coordinates in degrees."""
PLANE_NAMES = ("x", "y")
"""Names of the coordinates in any other reference system, or in an unknown one."""


@dataclass(frozen=True)
class GeoColumns:
    """A GeoDataFrame whose points have become two columns."""

    frame: Any
    """A pandas data frame: the two coordinates, then the other columns in their order."""
    coordinates: tuple[str, str]
    """Names of the two coordinates: east, then north."""
    is_geographic: bool
    """Whether the coordinates are longitude and latitude in degrees."""
    crs_wkt: str | None
    """The coordinate reference system as well-known text; None if the frame has none."""


def split_geometry(frame: Any, to_crs: str | None = None) -> GeoColumns | None:
    """Replace the points of a GeoDataFrame by two columns; return None for anything else.

    Heights of points are ignored.

    Args:
        frame: Any object. geopandas is not imported unless this is a GeoDataFrame.
        to_crs: Coordinate reference system that the coordinates are converted to: the one of the
            rows that a model was fitted to. By default they stay in that of the frame.
    """
    if not is_geo_frame(frame):
        return None
    points = _points(frame)
    if to_crs is not None:
        if points.crs is None:
            raise TableError(
                "The points must have a coordinate reference system, as the points that the model "
                "was fitted to. Got a GeoDataFrame without one; set it with set_crs."
            )
        points = points.to_crs(to_crs)
    is_geographic = points.crs is not None and bool(points.crs.is_geographic)
    names = GEOGRAPHIC_NAMES if is_geographic else PLANE_NAMES
    others = frame.drop(columns=points.name)
    _require_plain(others, names)
    for place, (name, values) in enumerate(zip(names, (points.x, points.y), strict=True)):
        others.insert(place, name, values.to_numpy())
    return GeoColumns(
        others, names, is_geographic, None if points.crs is None else points.crs.to_wkt()
    )


def _points(frame: Any) -> Any:
    """Return the active geometry; raise an error unless it is a point in every row."""
    if frame.active_geometry_name is None:
        raise TableError(
            "A GeoDataFrame must have an active geometry. Got none; choose its column with "
            "set_geometry."
        )
    geometry = frame.geometry
    _require_none(geometry.isna().to_numpy(), "missing")
    _require_none(geometry.is_empty.to_numpy(), "empty")
    kinds = geometry.geom_type
    if others := sorted(set(kinds) - {"Point"}):
        n_others = int((kinds != "Point").sum())
        raise TableError(
            f"The geometry must be one point in each row. Got {quote_names(others)} in {n_others} "
            "rows; replace it by points, such as its representative_point()."
        )
    return geometry


def _require_none(bad: Bool[np.ndarray, " N"], word: str) -> None:
    """Raise an error if some points are missing or empty."""
    if n_bad := int(bad.sum()):
        raise TableError(
            f"Every row must have a point. Got {n_bad} {word} ones, the first in row "
            f"{int(np.argmax(bad)) + 1}; remove these rows first."
        )


def _require_plain(others: Any, names: tuple[str, str]) -> None:
    """Raise an error if the other columns have further geometries, or the new names."""
    geometries = [str(name) for name, dtype in others.dtypes.items() if str(dtype) == "geometry"]
    if geometries:
        raise TableError(
            "A GeoDataFrame must have one geometry, which is active. Got further ones in "
            f"{quote_names(geometries)}; drop these columns."
        )
    if taken := [name for name in names if name in others.columns]:
        raise TableError(
            f"The coordinates of the points become the columns {quote_names(names)}. Got "
            f"{quote_names(taken)}, which the frame already has; rename or drop these columns."
        )
