"""The one way in: arrays, frames, tables and sources become a source of rows."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length

from sswim.base.errors import UserError
from sswim.base.frame_kinds import is_frame, is_geo_frame, is_missing, is_pandas
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator.input_checks import (
    as_numpy,
    check_rows,
    check_targets,
    check_weight,
    deviation_of,
)
from sswim.rows.memory_source import MemorySource
from sswim.rows.source import Source

Coordinates = tuple[str, str] | tuple[int, int] | None


def as_source(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    X_std: Any = None,
    *,
    dtype: torch.dtype,
    memory: int | None = None,
    processes: Processes = ALONE,
) -> Source:
    """Return the arguments of ``fit`` as a source of rows.

    Args:
        estimator: The estimator that is fitted.
        X: Inputs, a data frame, the path of a table, or a source.
        y: Targets, the name of the target column of a frame or table, or None for a source.
        sample_weight: How many times each row of arrays or frames counts.
        X_std: Known standard deviation of the columns of arrays or frames.
        dtype: Precision of the inputs.
        memory: Size in bytes up to which the table of a path is read whole.
        processes: The processes that fit together.
    """
    coordinates: Coordinates = estimator.coordinates
    if isinstance(X, Source | str | os.PathLike):
        if sample_weight is not None or X_std is not None:
            raise UserError(
                "sample_weight and X_std belong to arrays and frames. Got them together with a "
                "path or a source, whose chunks may have weights and input variances of their own."
            )
        if isinstance(X, Source):
            return _checked_source(X, y, coordinates)
        return _open_path(Path(X), y, coordinates, dtype, memory, processes)
    if isinstance(y, str) and not is_frame(X):
        raise UserError(
            "y may be the name of a column where X is a data frame or the path of a table. "
            f"Got y={y!r} together with an array."
        )
    if is_frame(X) or _needs_schema(as_numpy(X), coordinates):
        return _frame_source(X, y, sample_weight, X_std, coordinates, dtype)
    rows = check_rows(estimator, X, y, sample_weight, X_std, dtype=dtype, reset=True)
    return MemorySource(rows, flat_targets=np.asarray(as_numpy(y)).ndim == 1)


def _checked_source(X: Source, y: Any, coordinates: Coordinates) -> Source:
    if y is not None:
        raise UserError("A source has its own targets. Got y together with a source.")
    if coordinates is not None and X.table_schema is None:
        raise UserError(
            "coordinates belong to arrays, frames and tables. Got them together with a source, "
            "whose inputs are used as they are."
        )
    return X


def _open_path(
    path: Path,
    y: Any,
    coordinates: Coordinates,
    dtype: torch.dtype,
    memory: int | None,
    processes: Processes,
) -> Source:
    if not isinstance(y, str):
        raise UserError(f"The target of a table must be the name of a column. Got {y!r}.")
    from sswim.tables.table_source import open_source  # noqa: PLC0415 (it loads pyarrow)

    return open_source(
        path,
        y,
        coordinates=_names(coordinates, ()),
        memory=memory,
        processes=processes,
        dtype=dtype,
    )


def _needs_schema(X: Any, coordinates: Coordinates) -> bool:
    """Return whether an array has something that is not a plain number, or coordinates."""
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.ndim != 2 or not array.size:
        return False  # an error, which scikit-learn words
    if coordinates is not None:
        return True
    if array.dtype.kind in "OUSTMm":
        plain = (isinstance(value, int | float | np.number) for value in array.ravel())
        return not all(plain) or any(map(is_missing, array.ravel()))
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _frame_source(
    X: Any,
    y: Any,
    sample_weight: Any,
    X_std: Any,
    coordinates: Coordinates,
    dtype: torch.dtype,
) -> Source:
    from sswim.tables.frame_source import FrameSource  # noqa: PLC0415 (it loads pyarrow)
    from sswim.tables.frames import array_table, as_table  # noqa: PLC0415
    from sswim.tables.geo_frame import split_geometry  # noqa: PLC0415
    from sswim.tables.table_source import TableNote  # noqa: PLC0415

    crs, target, has_names = "", "", True
    if is_geo_frame(X):
        geo = split_geometry(X)
        assert geo is not None
        X, crs = geo.frame, geo.crs_wkt or ""
        if geo.is_geographic and coordinates is None:
            coordinates = geo.coordinates
    if is_frame(X):
        table = as_table(X)
        has_names = not is_pandas(X) or all(isinstance(name, str) for name in X.columns)
    else:
        array = np.asarray(as_numpy(X))
        table = array_table(array, [f"x{number}" for number in range(array.shape[1])])
        has_names = False
    if isinstance(y, str):
        from sswim.tables.schema import input_names  # noqa: PLC0415
        from sswim.tables.table_rows import target_numbers  # noqa: PLC0415

        target = y
        names = input_names(table.schema, target, ())
        y, table = target_numbers(table, target), table.select(names)
    targets = check_targets(y)
    check_consistent_length(targets, np.empty(table.num_rows))
    if table.num_rows < 2 or not table.num_columns:
        raise UserError(
            "X must have at least 2 rows and 1 column. Got "
            f"{table.num_rows} sample(s) and {table.num_columns} feature(s)."
        )
    weight = None
    if sample_weight is not None:
        weight = check_weight(sample_weight, table.num_rows)
    source = FrameSource(
        table,
        targets.reshape(len(targets), -1),
        target=target,
        weight=weight,
        deviation=deviation_of(X_std, (table.num_rows, table.num_columns)),
        coordinates=_names(coordinates, table.column_names),
        dtype=dtype,
        flat_targets=targets.ndim == 1,
        has_names=has_names,
        crs=crs,
    )
    for note in source.notes:
        warnings.warn(note, TableNote, stacklevel=4)
    return source


def _names(coordinates: Coordinates, columns: Any) -> tuple[str, str] | None:
    """Return the names of the coordinates, which may be given by their places."""
    if coordinates is None:
        return None
    first, second = (
        columns[each] if isinstance(each, int) and each < len(columns) else str(each)
        for each in coordinates
    )
    return first, second
