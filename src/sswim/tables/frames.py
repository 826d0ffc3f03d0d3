"""Data frames of any library, and arrays, as Arrow tables; points become two columns of numbers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sswim.base.validation import is_geo_frame, is_missing, is_pandas
from sswim.tables.table import TableError, quote_names, require_unique
from sswim.tables.values import without_string_views

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
    crs = points.crs
    is_geographic = crs is not None and bool(crs.is_geographic)
    names = GEOGRAPHIC_NAMES if is_geographic else PLANE_NAMES
    others = frame.drop(columns=points.name)
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
    for place, (name, values) in enumerate(zip(names, (points.x, points.y), strict=True)):
        others.insert(place, name, values.to_numpy())
    return GeoColumns(others, names, is_geographic, None if crs is None else crs.to_wkt())


def _points(frame: Any) -> Any:
    """Return the active geometry; raise an error unless it is a point in every row."""
    if frame.active_geometry_name is None:
        raise TableError(
            "A GeoDataFrame must have an active geometry. Got none; choose its column with "
            "set_geometry."
        )
    geometry = frame.geometry
    for word, bad in (("missing", geometry.isna()), ("empty", geometry.is_empty)):
        if n_bad := int(bad.sum()):
            raise TableError(
                f"Every row must have a point. Got {n_bad} {word} ones, the first in row "
                f"{int(np.argmax(bad)) + 1}; remove these rows first."
            )
    kinds = geometry.geom_type
    if others := sorted(set(kinds) - {"Point"}):
        n_others = int((kinds != "Point").sum())
        raise TableError(
            f"The geometry must be one point in each row. Got {quote_names(others)} in {n_others} "
            "rows; replace it by points, such as its representative_point()."
        )
    return geometry


class MixedColumnWarning(UserWarning):
    """A column of several types that is read as text."""


def as_table(X: Any) -> pa.Table:
    """Convert a data frame of pandas, polars or Arrow to an Arrow table.

    Anything with Arrow's C stream interface is a data frame.
    """
    if is_pandas(X):
        names = [str(name) for name in X.columns]
        series = (X.iloc[:, number] for number in range(len(names)))
        columns = [_from_series(*pair) for pair in zip(series, names, strict=True)]
        table = pa.table(columns, names=names)
    else:
        try:
            table = pa.table(X)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TableError(
                f"The data frame cannot be read as an Arrow table{_bad_columns(X)}: {error}"
            ) from error
    require_unique(table.column_names)
    return without_string_views(table)


def array_table(X: Any, names: Sequence[str]) -> pa.Table:
    """Convert an array, whose columns are in order, to an Arrow table."""
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise TableError(
            f"X must be a two-dimensional array of {len(names)} columns ({quote_names(names)}), as "
            f"in fit. Got X.shape={array.shape}. Reshape a single row with X.reshape(1, -1)."
        )
    convert = _object_array if array.dtype == object else _numeric_array
    columns = zip(array.T, names, strict=True)
    return pa.table([convert(column, name) for column, name in columns], names=list(names))


def _from_series(series: Any, name: str) -> pa.Array:
    """Convert a column of pandas, some of whose types Arrow does not know."""
    kind = type(series.dtype).__name__
    if kind == "SparseDtype":
        series = series.sparse.to_dense()
    elif kind == "PeriodDtype":
        series = series.dt.to_timestamp()
    elif kind == "IntervalDtype":
        series = series.astype("category")
        kind = "CategoricalDtype"
    if kind == "CategoricalDtype" and type(series.cat.categories.dtype).__name__ in (
        "IntervalDtype",
        "PeriodDtype",
    ):
        # Whole ends of intervals have no fraction: those of integers are floats if one is missing.
        labels = [re.sub(r"\.0(?=[,\])])", "", str(interval)) for interval in series.cat.categories]
        series = series.cat.rename_categories(labels)
    if series.dtype == object:
        return _object_array(series.to_numpy(), name)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biufc":
        return _numeric_array(series.to_numpy(), name)
    try:
        array = pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if kind == "CategoricalDtype":  # of several types
            return _object_array(series.to_numpy(), name).dictionary_encode()
        raise _unusable(name, series.dtype) from error
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _numeric_array(column: np.ndarray, name: str) -> pa.Array:
    """Convert a column of an array, NaN to null."""
    if column.dtype.kind == "f" and column.dtype.itemsize > 8:
        column = column.astype(np.float64)
    column = np.ascontiguousarray(column, column.dtype.newbyteorder("="))
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError) as error:
        raise _unusable(name, column.dtype) from error


def _object_array(column: np.ndarray, name: str) -> pa.Array:
    """Convert Python objects; a mix of numbers and text becomes text."""
    try:
        return pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        values = [None if is_missing(value) else value for value in column]
        if not all(value is None or isinstance(value, _PLAIN) for value in values):
            raise _unusable(name, "object") from error
    kinds = {type(value).__name__ for value in values if value is not None}
    if kinds <= {"int", "float", "bool", "Decimal"} | _NUMPY_NUMBERS:
        return pa.array([None if value is None else float(value) for value in values])
    warnings.warn(
        f"Column {name!r} has values of several types ({', '.join(sorted(kinds))}): it is read as "
        "text.",
        MixedColumnWarning,
        stacklevel=5,
    )
    return pa.array([None if value is None else str(value) for value in values], pa.large_string())


_PLAIN = (str, bool, int, float, Decimal, np.generic)

_NUMPY_NUMBERS = {f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}


def _bad_columns(X: Any) -> str:
    """Return which columns of a frame Arrow does not know, as part of a message."""
    if not hasattr(X, "select") or not hasattr(X, "columns"):
        return ""
    bad = []
    for name in X.columns:
        try:
            pa.table(X.select(name))
        except (pa.ArrowException, TypeError, ValueError):
            bad.append(str(name))
    return f" because of {quote_names(bad)}" if bad else ""


def _unusable(name: str, dtype: Any) -> TableError:
    return TableError(
        "An input must be a number, a date, a time, text or a category. "
        f"Got column {name!r} of type {dtype}; leave it out."
    )
