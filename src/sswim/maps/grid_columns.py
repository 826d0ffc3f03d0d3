"""The columns of a model's rows on a map: two that vary, and others that are fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from jaxtyping import Float64
from sklearn.utils.validation import check_is_fitted

from sswim.base.validation import UserError, require_integer
from sswim.estimator.base import BaseRegressor
from sswim.tables import Column, NumberColumn, TimeColumn, quote_names

Name = str | int
"""Name of a column, or its number in a model of arrays."""


@dataclass(frozen=True)
class GridColumns:
    """How the cells of a map become rows of a model."""

    names: tuple[Name, ...]
    """All columns of the model, in their order."""
    coordinates: tuple[Name, Name]
    """The columns that vary over the map: east and north."""
    fixed: Mapping[Name, Any]
    """The values of the other columns."""
    geographic: bool
    """Whether the coordinates are degrees on the sphere."""

    @property
    def labels(self) -> tuple[str, str]:
        """Names of the axes of the map."""
        east, north = self.coordinates
        return (east, north) if isinstance(east, str) and isinstance(north, str) else ("x", "y")

    @property
    def fixed_coordinates(self) -> dict[str, Any]:
        """The fixed values as a file of a map can hold them: times with a zone become UTC."""
        return {str(name): _storable(value) for name, value in self.fixed.items()}

    def rows(self, points: Float64[np.ndarray, "n 2"]) -> pa.Table | Float64[np.ndarray, "n D"]:
        """Return the rows of some cells: a table, or an array for a model of arrays."""
        if self.geographic:
            # Longitudes from −180 to 180, as most tables have them; the place stays the same.
            points = np.stack([np.mod(points[:, 0] + 180, 360) - 180, points[:, 1]], axis=-1)
        varying = dict(zip(self.coordinates, points.T, strict=True))
        if isinstance(self.names[0], int):
            fixed = {name: np.full(len(points), value) for name, value in self.fixed.items()}
            columns = varying | fixed
            return np.stack([columns[name] for name in self.names], axis=-1)
        table = {name: pa.repeat(value, len(points)) for name, value in self.fixed.items()}
        table |= {name: pa.array(values) for name, values in varying.items()}
        return pa.table({str(name): table[name] for name in self.names})


def _storable(value: Any) -> Any:
    """Return a value in a type that netCDF has."""
    if isinstance(value, datetime):
        return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return value.isoformat() if isinstance(value, time) else value


def grid_columns(
    regressor: BaseRegressor,
    coordinates: Sequence[Name] | None,
    at: Mapping[Any, Any] | None,
) -> GridColumns:
    """Find the columns that vary over a map, and check the values of the others.

    Args:
        regressor: A fitted estimator.
        coordinates: The two columns that vary. By default those that the model has on the sphere,
            or all columns if there are two.
        at: Values of the other columns. Text is read as a number or a time where the model has
            numbers or times.
    """
    check_is_fitted(regressor)
    schema = regressor._reader.schema
    columns: dict[Name, Column]
    if schema is None:
        columns = {place: NumberColumn(str(place)) for place in range(regressor.n_features_in_)}
    elif hasattr(regressor, "feature_names_in_"):
        columns = {column.name: column for column in schema.columns if column.name in schema.used}
    else:
        columns = dict(enumerate(schema.columns))
    on_sphere = sphere_coordinates(regressor)
    coordinates = coordinates or on_sphere
    if coordinates is None:
        coordinates = tuple(columns)
        if len(columns) != 2:
            raise UserError(
                f"A map needs the two columns that vary over it. Got a model of {len(columns)} "
                "columns; give coordinates."
            )
    if len(coordinates) != 2 or coordinates[0] == coordinates[1]:
        raise UserError(f"coordinates must be two different columns. Got {coordinates!r}.")
    _require_known(tuple(columns), coordinates, "coordinates")
    east, north = coordinates
    fixed = dict(at or {})
    _require_known(tuple(columns), tuple(fixed), "at")
    if twice := [name for name in (east, north) if name in fixed]:
        raise UserError(f"A coordinate of the map has no fixed value. Got one for {twice[0]!r}.")
    if absent := [name for name in columns if name not in (*fixed, east, north)]:
        raise UserError(
            "A map needs a value for each column of the model that is not a coordinate. Got none "
            f"for {', '.join(map(repr, absent))}; give them with at, or --at."
        )
    values = {name: _as_value(name, fixed[name], columns[name]) for name in fixed}
    return GridColumns(tuple(columns), (east, north), values, (east, north) == on_sphere)


def sphere_coordinates(regressor: BaseRegressor) -> tuple[Name, Name] | None:
    """Return the columns that a model has on the sphere, longitude and latitude, if it has any."""
    schema = regressor._reader.schema
    if schema is None or schema.sphere is None:
        return None
    both = (schema.sphere.longitude, schema.sphere.latitude)
    if hasattr(regressor, "feature_names_in_"):
        return both
    return schema.names.index(both[0]), schema.names.index(both[1])


def require_cells(
    what: str, spacing: int | float | None, shape: tuple[int, int] | None, *, least: int
) -> None:
    """Raise unless either a positive spacing or a shape of at least so many parts is given."""
    if (spacing is None) == (shape is None):
        raise UserError(
            f"{what} need either a spacing or a shape. Got spacing={spacing!r} and shape={shape!r}."
        )
    if spacing is not None and not (np.isfinite(spacing) and spacing > 0):
        raise UserError(f"spacing must be a positive number. Got {spacing!r}.")
    for place, number in enumerate(shape or ()):
        require_integer(f"shape[{place}]", number, least)


def _require_known(names: tuple[Name, ...], wanted: Sequence[Name], argument: str) -> None:
    """Raise an error unless the model has all of the columns."""
    if unknown := [name for name in wanted if name not in names]:
        raise UserError(
            f"{argument} must name columns of the model. Got {unknown[0]!r}; it has "
            f"{quote_names([str(name) for name in names])}."
        )


def _as_value(name: Name, value: Any, column: Column) -> Any:
    """Return a fixed value in the type that its column has."""
    try:
        if isinstance(column, NumberColumn):
            return float(_TRUTHS.get(value.lower(), value) if isinstance(value, str) else value)
        if isinstance(column, TimeColumn):
            return _as_time(value, column)
    except (TypeError, ValueError) as error:
        wanted = "a number" if column.kind == "number" else "a date or time, such as 2024-07-01"
        raise UserError(f"Column {name!r} must have {wanted}. Got {value!r}.") from error
    return value


_TRUTHS = {"true": 1.0, "false": 0.0}


def _as_time(value: Any, column: TimeColumn) -> datetime | time:
    """Return a time; text is read, and a time without a zone is one of the column's zone."""
    if isinstance(value, str):
        value = (time if column.is_time_of_day else datetime).fromisoformat(value)
    elif isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime | time):
        raise TypeError(f"{type(value).__name__} is no time")
    if column.zone and isinstance(value, datetime) and value.tzinfo is None:
        return value.replace(tzinfo=ZoneInfo(column.zone))
    return value
