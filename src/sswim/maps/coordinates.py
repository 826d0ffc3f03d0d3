"""The two coordinate columns of arrays and data frames.

Packages of the extra ``maps``, which are imported when they are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from jaxtyping import Float64

from sswim.base.validation import UserError
from sswim.tables import split_geometry


def import_extra(name: str) -> ModuleType:
    """Import a package of the extra, or say how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(
            f"Maps need the package {name}, which cannot be imported: {error}. Install the extra: "
            'pip install "sswim[maps]".'
        ) from error


@dataclass(frozen=True)
class CoordinateColumns:
    """The coordinates of rows."""

    values: Float64[np.ndarray, "N 2"]
    """East and north."""
    is_geographic: bool
    """Whether they are known to be longitude and latitude in degrees."""


def coordinate_columns(
    X: Any, coordinates: tuple[int, int] | tuple[str, str] | None
) -> CoordinateColumns:
    """Return the coordinates of rows.

    Args:
        X: An array, a pandas, polars or Arrow frame, or a GeoDataFrame.
        coordinates: Names or numbers of the two columns. By default the points of a GeoDataFrame,
            or the first two columns.
    """
    if coordinates is not None and len(set(coordinates)) != 2:
        raise UserError(f"coordinates must be two different columns. Got {coordinates!r}.")
    geo, is_geographic = split_geometry(X), False
    if geo is not None:
        X, coordinates = geo.frame, coordinates or geo.coordinates
        is_geographic = geo.is_geographic and coordinates == geo.coordinates
    columns = [_column(X, column) for column in coordinates or (0, 1)]
    values = np.stack(columns, axis=-1)
    if n_bad := int((~np.isfinite(values).all(1)).sum()):
        raise UserError(
            f"Coordinates must be finite numbers. Got {n_bad} rows with missing or infinite ones; "
            "remove these rows first."
        )
    return CoordinateColumns(values, is_geographic)


def _column(X: Any, column: int | str) -> Float64[np.ndarray, " N"]:
    """Return a column of an array or a frame as numbers."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None:
        values = _array_column(X, column)
    else:
        names = list(names)
        if isinstance(column, str) and column not in names:
            raise UserError(
                f"The frame must have a column {column!r}, as coordinates say. It has "
                f"{', '.join(map(repr, names))}."
            )
        if not isinstance(column, str):
            column = names[_checked(column, len(names))]
        values = X[column]
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"Coordinates must be numbers. Got column {column!r}, whose values are not."
        ) from error


def _array_column(X: Any, column: int | str) -> Any:
    """Return a column of an array."""
    values = np.asarray(X)
    if values.ndim != 2:
        raise UserError(f"X must have two dimensions. Got X.shape={values.shape}.")
    if isinstance(column, str):
        raise UserError(
            f"An array has no column names. Got coordinates with {column!r}; give their numbers, "
            "or a data frame."
        )
    return values[:, _checked(column, values.shape[1])]


def _checked(column: int, n_columns: int) -> int:
    """Return the number of a column; raise an error if there is no such column."""
    if not 0 <= column < n_columns:
        raise UserError(
            f"coordinates must be two of the {n_columns} columns, counted from 0. Got {column}."
        )
    return column
