"""Longitude and latitude, which become a point on the unit sphere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from sswim.tables.table_io import TableError


@dataclass(frozen=True)
class SphereColumn:
    """Two columns, longitude and latitude in degrees, which become east, north and up.

    These are the coordinates of the point on the unit sphere, seen from the middle of the rows of
    ``fit``. Distances are those of straight lines through the sphere (chordal distances): the date
    line and the poles are nothing special, and in a small region ``up`` hardly varies.
    """

    kind: ClassVar[str] = "coordinates"
    longitude: str
    latitude: str
    centre: tuple[float, float] = (0.0, 0.0)
    """Longitude and latitude from which the sphere is seen."""

    @property
    def inputs(self) -> list[str]:
        """Names of the three coordinates."""
        both = f"{self.longitude}, {self.latitude}"
        return [f"{both} {axis}" for axis in ("east", "north", "up")]

    def encode(
        self, longitude: Float64[np.ndarray, " N"], latitude: Float64[np.ndarray, " N"]
    ) -> Float64[np.ndarray, "N 3"]:
        """Return the coordinates of points, NaN where one of their degrees is missing."""
        if n_bad := int((np.abs(latitude) > 90).sum()):
            raise TableError(
                f"Latitudes must be degrees from −90 to 90. Got {n_bad} others in column "
                f"{self.latitude!r}; correct them, or name the coordinates as longitude, latitude."
            )
        return points(longitude, latitude) @ self._axes.T

    def decode(
        self, inputs: Float64[np.ndarray, "N 3"]
    ) -> tuple[Float64[np.ndarray, " N"], Float64[np.ndarray, " N"]]:
        """Return longitude and latitude of points, given their coordinates."""
        x, y, z = (inputs @ self._axes).T
        return np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))

    @property
    def _axes(self) -> Float64[np.ndarray, "3 3"]:
        """The directions east, north and up at the centre."""
        east, north = np.radians(self.centre)
        return np.array(
            [
                [-np.sin(east), np.cos(east), 0.0],
                [-np.sin(north) * np.cos(east), -np.sin(north) * np.sin(east), np.cos(north)],
                [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)],
            ]
        )


def points(
    longitude: Float64[np.ndarray, " N"], latitude: Float64[np.ndarray, " N"]
) -> Float64[np.ndarray, "N 3"]:
    """Return the points on the unit sphere of degrees."""
    east, north = np.radians(longitude), np.radians(latitude)
    flat = np.cos(north)
    return np.stack((flat * np.cos(east), flat * np.sin(east), np.sin(north)), axis=1)


def centre_of(
    longitude: Float64[np.ndarray, " N"], latitude: Float64[np.ndarray, " N"]
) -> tuple[float, float]:
    """Return longitude and latitude of the middle of points; zero if they are all around."""
    known = np.isfinite(longitude) & np.isfinite(latitude)
    if not known.any():
        return 0.0, 0.0
    x, y, z = points(longitude[known], latitude[known]).mean(0).tolist()
    if np.hypot(np.hypot(x, y), z) < 0.05:
        return 0.0, 0.0
    return float(np.degrees(np.arctan2(y, x))), float(np.degrees(np.arctan2(z, np.hypot(x, y))))
