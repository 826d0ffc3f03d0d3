"""The region of the rows that a model was fitted to."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from sswim.base.errors import UserError
from sswim.estimator.regressor import SSWIMRegressor
from sswim.maps.grid_columns import GridColumns, Name, model_schema
from sswim.maps.region import Region
from sswim.posterior.neighbour_predictor import NeighbourPredictor
from sswim.tables.schema import Schema
from sswim.tables.sphere_column import SphereColumn

MAX_ARC = 350.0
"""Degrees of longitude from which on a region goes all around the sphere."""


def seen_region(regressor: SSWIMRegressor, columns: GridColumns) -> Region:
    """Return the rectangle around the rows that a model keeps.

    Args:
        regressor: A fitted estimator.
        columns: How the cells of a map become its rows.
    """
    inputs = _kept_inputs(regressor)
    if inputs is None:
        raise UserError(
            "A map needs its region: west, east, south, north. Got none, and a model that keeps "
            "no rows from which it could follow; give region, or --region."
        )
    schema = model_schema(regressor)
    if columns.geographic:
        assert schema is not None
        assert schema.sphere is not None
        longitude, latitude = _degrees(schema.sphere, inputs[:, :3])
        return Region(*_arc(longitude), float(latitude.min()), float(latitude.max()))
    x, y = (inputs[:, _place(schema, name)] for name in columns.coordinates)
    return Region(float(x.min()), float(x.max()), float(y.min()), float(y.max()))


def _place(schema: Schema | None, name: Name) -> int:
    """Return the number of the input that a column of numbers is."""
    if schema is None:
        return int(name)
    return schema.feature_names.index(schema.names[name] if isinstance(name, int) else name)


def _kept_inputs(regressor: SSWIMRegressor) -> Float64[np.ndarray, "N D"] | None:
    """Return the inputs of the rows in a model, in their units; None if there are none."""
    for member in regressor.members_:
        if isinstance(member.predictor, NeighbourPredictor) and len(member.predictor.rows):
            scaling, inputs = regressor.scaling_, member.predictor.rows.inputs.mean
            original = inputs.double() * scaling.input_spread + scaling.input_mean
            return original.cpu().numpy()
    return None


def _degrees(
    sphere: SphereColumn, encoded: Float64[np.ndarray, "N 3"]
) -> tuple[Float64[np.ndarray, " N"], Float64[np.ndarray, " N"]]:
    """Return longitude and latitude of points on the sphere that a model sees."""
    # The rows of this matrix are the images of the three axes, and it is orthogonal.
    axes = sphere.encode(np.array([0.0, 90.0, 0.0]), np.array([0.0, 0.0, 90.0]))
    x, y, z = (encoded @ axes.T).T
    return np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))


def _arc(longitude: Float64[np.ndarray, " N"]) -> tuple[float, float]:
    """Return the ends of the shortest arc that holds all longitudes."""
    places = np.sort(np.mod(longitude, 360.0))
    gaps = np.diff(places, append=places[0] + 360.0)
    widest = int(np.argmax(gaps))
    if 360.0 - gaps[widest] > MAX_ARC:
        return -180.0, 180.0
    west = float(places[(widest + 1) % len(places)])
    west = west - 360.0 if west > 180.0 else west
    return west, west + 360.0 - float(gaps[widest])
