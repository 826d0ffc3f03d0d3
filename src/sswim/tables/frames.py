"""Data frames of any library, and arrays, as Arrow tables."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sswim.base.frame_kinds import is_missing, is_pandas
from sswim.tables.arrow_types import without_string_view
from sswim.tables.table_io import TableError, quote_names


class MixedColumnWarning(UserWarning):
    """A column of several types that is read as text."""


def as_table(X: Any) -> pa.Table:
    """Convert a data frame of pandas, polars or Arrow to an Arrow table.

    Anything with Arrow's C stream interface is a data frame.
    """
    if is_pandas(X):
        table = _from_pandas(X)
    elif isinstance(X, pa.Table):
        table = X
    else:
        try:
            table = pa.table(X)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise TableError(
                f"The data frame cannot be read as an Arrow table{_bad_columns(X)}: {error}"
            ) from error
    names = table.column_names
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise TableError(f"Column names must be unique. Got several {quote_names(repeated)}.")
    fields = [field.with_type(without_string_view(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def array_table(X: Any, names: Sequence[str]) -> pa.Table:
    """Convert an array, whose columns are in order, to an Arrow table."""
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise TableError(
            f"X must be a two-dimensional array of {len(names)} columns ({quote_names(names)}), as "
            f"in fit. Got X.shape={array.shape}. Reshape a single row with X.reshape(1, -1)."
        )
    if array.dtype != object:
        return pa.table([_numeric_array(*each) for each in zip(array.T, names, strict=True)], names)
    columns = zip(array.T, names, strict=True)
    return pa.table([_object_array(column, name) for column, name in columns], names=list(names))


def _from_pandas(frame: Any) -> pa.Table:
    arrays = []
    for number, name in enumerate(frame.columns):
        arrays.append(_from_series(frame.iloc[:, number], str(name)))
    return pa.table(arrays, names=[str(name) for name in frame.columns])


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
        labels = [re.sub(r"\.0(?=[,\])])", "", str(each)) for each in series.cat.categories]
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
    kinds = sorted({type(value).__name__ for value in values if value is not None})
    if set(kinds) <= {"int", "float", "bool", "Decimal"} | _NUMPY_NUMBERS:
        return pa.array([None if value is None else float(value) for value in values])
    warnings.warn(
        f"Column {name!r} has values of several types ({', '.join(kinds)}): it is read as text.",
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
