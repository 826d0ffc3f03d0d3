"""The way in: what users pass to an estimator becomes rows of numbers.

In ``fit``, arrays, frames, tables and sources become a source of rows. Later rows are read in the
way in which those of ``fit`` were. Predictions of models of ``fit`` are finite; a file made by hand
can hold parameters that are each within their limits, but whose products are not numbers, and then
an error says so.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, validate_data
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.base.validation import UserError, is_frame, is_missing, is_pandas
from sswim.distributed.processes import Processes
from sswim.rows.imputer import GaussianImputer, impute
from sswim.rows.rows import Measure, Rows, as_measure, as_rows
from sswim.rows.source import MemorySource, Source

if TYPE_CHECKING:
    import pyarrow as pa

    from sswim.estimator.base import BaseRegressor
    from sswim.tables import Schema

Coordinates = tuple[str, str] | tuple[int, int] | None


def as_source(
    estimator: BaseRegressor,
    X: Any,
    y: Any,
    sample_weight: Any,
    X_std: Any,
    memory: int,
    processes: Processes,
) -> Source:
    """Return the arguments of ``fit`` as a source of rows.

    Args:
        estimator: The estimator that is fitted.
        X: Inputs, a data frame, the path of a table, or a source.
        y: Targets, the name of the target column of a frame or table, or None for a source.
        sample_weight: How many times each row of arrays or frames counts.
        X_std: Known standard deviation of the columns of arrays or frames.
        memory: Size in bytes up to which the table of a path is read whole.
        processes: The processes that fit together.
    """
    coordinates = estimator.coordinates
    if isinstance(X, Source | str | os.PathLike):
        if sample_weight is not None or X_std is not None:
            raise UserError(
                "sample_weight and X_std belong to arrays and frames. Got them together with a "
                "path or a source, whose chunks may have weights and input variances of their own."
            )
        if isinstance(X, Source):
            if y is not None:
                raise UserError("A source has its own targets. Got y together with a source.")
            if coordinates is not None and X.schema is None:
                raise UserError(
                    "coordinates belong to arrays, frames and tables. Got them together with a "
                    "source, whose inputs are used as they are."
                )
            return X
        if not isinstance(y, str):
            raise UserError(f"The target of a table must be the name of a column. Got {y!r}.")
        from sswim import tables  # noqa: PLC0415 (it loads pyarrow)

        return tables.open_source(
            Path(X),
            y,
            coordinates=_names(coordinates, ()),
            memory=memory,
            processes=processes,
            dtype=estimator._precision,
        )
    if isinstance(y, str) and not is_frame(X):
        raise UserError(
            "y may be the name of a column where X is a data frame or the path of a table. "
            f"Got y={y!r} together with an array."
        )
    if is_frame(X) or _needs_schema(as_numpy(X), coordinates):
        return _frame_source(estimator, X, y, sample_weight, X_std)
    return _array_source(estimator, X, y, sample_weight, X_std)


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


def _array_source(
    estimator: BaseRegressor, X: Any, y: Any, sample_weight: Any, X_std: Any
) -> Source:
    """Check arrays of plain numbers, whose names and number become those of the estimator."""
    if y is None:
        raise UserError(_NO_TARGETS)
    require_known_targets(y)
    inputs, targets = check_X_y(
        as_numpy(X),
        as_numpy(y),
        dtype=np.float64,
        multi_output=True,
        y_numeric=True,
        ensure_min_samples=2,
        estimator=estimator,
    )
    deviation = deviation_of(X_std, inputs.shape)
    variance = None if deviation is None else np.square(deviation)
    sample_weight = check_weight(sample_weight, len(inputs))
    rows = as_rows(inputs, targets, sample_weight, variance, estimator._precision)
    return MemorySource(rows, flat_targets=np.asarray(as_numpy(y)).ndim == 1)


def _frame_source(
    estimator: BaseRegressor, X: Any, y: Any, sample_weight: Any, X_std: Any
) -> Source:
    from sswim import tables  # noqa: PLC0415 (it loads pyarrow)

    coordinates, crs, target, has_names = estimator.coordinates, "", "", True
    if (geo := tables.split_geometry(X)) is not None:
        X, crs = geo.frame, geo.crs_wkt or ""
        if geo.is_geographic and coordinates is None:
            coordinates = geo.coordinates
    if is_frame(X):
        table = tables.as_table(X)
        has_names = not is_pandas(X) or all(isinstance(name, str) for name in X.columns)
    else:
        array = np.asarray(as_numpy(X))
        table = tables.array_table(array, [f"x{number}" for number in range(array.shape[1])])
        has_names = False
    if isinstance(y, str):
        target = y
        names = tables.input_names(table.schema, target, ())
        y, table = tables.target_numbers(table, target), table.select(names)
    targets = check_targets(y)
    check_consistent_length(targets, np.empty(table.num_rows))
    if table.num_rows < 2 or not table.num_columns:
        raise UserError(
            "X must have at least 2 rows and 1 column. Got "
            f"{table.num_rows} sample(s) and {table.num_columns} feature(s)."
        )
    source = tables.FrameSource(
        table,
        targets.reshape(len(targets), -1),
        target=target,
        weight=check_weight(sample_weight, table.num_rows),
        deviation=deviation_of(X_std, (table.num_rows, table.num_columns)),
        coordinates=_names(coordinates, table.column_names),
        dtype=estimator._precision,
        flat_targets=targets.ndim == 1,
        has_names=has_names,
        crs=crs,
    )
    for note in source.notes:
        warnings.warn(note, tables.TableNote, stacklevel=4)
    return source


def _names(coordinates: Coordinates, columns: Any) -> tuple[str, str] | None:
    """Return the names of the coordinates, which may be given by their places."""
    if coordinates is None:
        return None
    first, second = (
        columns[place] if isinstance(place, int) and place < len(columns) else str(place)
        for place in coordinates
    )
    return first, second


@dataclass(frozen=True)
class InputReader:
    """Reads rows of later calls in the way in which the rows of ``fit`` were read."""

    imputer: GaussianImputer
    """Fills in missing inputs."""
    columns: tuple[str, ...] | None = None
    """Names of the columns, if they have any."""
    inputs: tuple[str, ...] | None = None
    """Names of the inputs that the columns become, if they have any."""
    schema: Schema | None = None
    """How columns become inputs; None for arrays of plain numbers, which are the inputs."""

    def __post_init__(self) -> None:
        n_indicators = 0 if self.schema is None else int(self.schema.indicators.sum())
        if len(self.imputer.mean) + n_indicators != self.n_inputs:
            raise ValueError(
                f"an imputer of {len(self.imputer.mean)} inputs for a schema of {self.n_inputs}, "
                f"{n_indicators} of which say that a value is missing"
            )

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return len(self.imputer.mean) if self.schema is None else len(self.schema.columns)

    @property
    def n_inputs(self) -> int:
        """Number of inputs of the model."""
        return len(self.imputer.mean) if self.schema is None else len(self.schema.feature_names)

    @property
    def level_means(self) -> Bool[np.ndarray, " D"]:
        """Whether an input is the mean target of a level: a row of training has another there."""
        return np.zeros(self.n_inputs, bool) if self.schema is None else self.schema.level_means

    def inputs_of(self, column: str) -> Bool[np.ndarray, " D"]:
        """Return which inputs a column becomes, without mean targets of levels."""
        if self.schema is not None:
            return self.schema.inputs_of(column)
        raise UserError(
            f"Groups may be named by a column where fit got a data frame or a table. Got "
            f"{column!r}; give one label for each row."
        )

    def require_plain(self) -> None:
        """Raise unless the inputs are the columns themselves, all of them plain numbers."""
        if self.schema is None:
            return
        encoded = [
            f"{column.name!r} ({column.kind}{', missing values' if column.has_missing else ''})"
            for column in self.schema.columns
            if column.kind != "number" or column.has_missing
        ]
        if self.schema.sphere is not None:
            encoded.append(f"{self.schema.sphere.longitude!r} and its latitude (sphere)")
        if encoded:
            raise UserError(
                "Tensors are inputs of a model of plain numbers. This one was fitted to columns "
                f"that become inputs in another way: {', '.join(encoded)}. Fit it to an array of "
                "numbers, or use predict(X, return_cov=True) and sample_y(X) with a frame."
            )

    def read(
        self,
        estimator: BaseRegressor,
        X: Any,
        X_std: Any = None,
        dtype: torch.dtype = torch.float64,
    ) -> Measure:
        """Return the inputs of rows, with missing values imputed.

        Args:
            estimator: The fitted estimator.
            X: Inputs: an array, a data frame or the path of a table; or rows read before.
            X_std: Known standard deviation of the columns: a number, (D,) or (N, D).
            dtype: Precision of the inputs.
        """
        if isinstance(X, Measure):
            return as_measure(X.mean, X.input_variance, dtype)
        inputs = self.encode(estimator, X)
        variance = deviation_of(X_std, (len(inputs), self.n_columns))
        if variance is not None:  # of columns, and then of inputs
            schema = self.schema
            variance = np.square(variance) if schema is None else schema.input_variance(variance)
        return self.impute(inputs, variance, dtype)

    def encode(self, estimator: BaseRegressor, X: Any) -> Float64[np.ndarray, "N D"]:
        """Return the inputs of rows in any form, NaN where they are missing."""
        if self.schema is not None:
            return self.schema.encode(self.read_table(X))
        if isinstance(X, str | os.PathLike):
            raise UserError(
                "A model of arrays does not know the columns of a table. Got a path; fit the "
                "model to a data frame or a table."
            )
        values = without_times("X", as_numpy(X))
        return validate_data(
            estimator, values, dtype=np.float64, reset=False, ensure_all_finite="allow-nan"
        )

    def impute(
        self,
        inputs: Float64[np.ndarray, "N D"],
        variance: Float64[np.ndarray, "N D"] | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> Measure:
        """Return inputs, some of which may be missing (NaN), as a measure without gaps."""
        known = () if self.schema is None else (self.schema.indicators, self.schema.has_indicator)
        inputs, variance = impute(inputs, self.imputer, variance, *known)
        return as_measure(inputs, variance, dtype)

    def split_target(self, X: Any, target: str) -> tuple[pa.Table, Float64[np.ndarray, " N"]]:
        """Return a frame or a table, and the targets in one of its columns."""
        if self.schema is None or not (is_frame(X) or isinstance(X, str | os.PathLike)):
            raise UserError(
                "y may be the name of a column where X is a data frame or the path of a table. "
                f"Got y={target!r}."
            )
        from sswim import tables  # noqa: PLC0415 (it loads pyarrow)

        table = self.read_table(X, target)
        return table, tables.target_numbers(table, target)

    def read_table(self, X: Any, *others: str) -> pa.Table:
        """Return the rows of a frame, a table or an array as a table, before they are encoded.

        Of the table of a path, the columns of the schema and ``others`` are read.
        """
        from sswim import tables  # noqa: PLC0415 (it loads pyarrow)

        schema = self.schema
        assert schema is not None
        if isinstance(X, str | os.PathLike):
            X = tables.read_columns(
                Path(X), [*schema.used, *others], tables.AS_FOUND.for_model(schema.text_names)
            )
        if (geo := tables.split_geometry(X, schema.crs or None)) is not None:
            X = geo.frame
        is_table = is_frame(X)
        table = tables.as_table(X) if is_table else tables.array_table(as_numpy(X), schema.names)
        if not table.num_rows:
            raise UserError("X must have at least one row. Found array with 0 sample(s).")
        return table


def check_rows(
    estimator: BaseRegressor,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    X_std: Any = None,
    *,
    dtype: torch.dtype = torch.float64,
) -> Rows:
    """Check inputs with targets against those of ``fit``, and make rows of them.

    Args:
        estimator: The fitted estimator that the rows are for.
        X: Inputs: anything that the estimator reads.
        y: Targets, (N,) or (N, T), or the name of the target column of a frame or table.
        sample_weight: How many times each row counts, (N,).
        X_std: Known standard deviation of the columns: a number, (D,) or (N, D).
        dtype: Precision of the inputs.
    """
    if isinstance(y, str):
        X, y = estimator._reader.split_target(X, y)
    inputs = estimator._reader.read(estimator, X, X_std, dtype)
    targets = check_targets(y)
    rows = as_rows(inputs, targets, check_weight(sample_weight, len(inputs.mean)))
    if rows.targets.shape[1] != estimator.n_targets_:
        raise UserError(
            f"y must have the {estimator.n_targets_} targets of fit. Got y.shape={targets.shape}."
        )
    return rows


_NO_TARGETS = "fit requires y to be passed, but the target y is None."


def check_targets(y: Any) -> Float64[np.ndarray, " N"] | Float64[np.ndarray, "N T"]:
    """Return targets as numbers; raise an error that counts those that are missing."""
    if y is None:
        raise UserError(_NO_TARGETS)
    require_known_targets(y)
    targets = check_array(as_numpy(y), dtype=np.float64, ensure_2d=False, input_name="y")
    if targets.ndim not in (1, 2):
        raise UserError(f"y must have shape (N,) or (N, T). Got y.shape={targets.shape}.")
    return targets


def require_known_targets(y: Any) -> None:
    """Raise an error if targets are missing."""
    array = check_array(
        as_numpy(y), dtype=None, ensure_2d=False, ensure_all_finite=False, input_name="y"
    )
    values = array.reshape(len(array), -1)
    missing = np.zeros(values.shape, dtype=bool)
    if values.dtype == object:
        missing = np.array([[is_missing(value) for value in row] for row in values])
    elif values.dtype.kind in "fMm":
        missing = np.isnat(values) if values.dtype.kind in "Mm" else np.isnan(values)
    if n_missing := int(missing.any(axis=1).sum()):
        raise UserError(
            f"Every row must have a target. Got {n_missing} of {len(array)} missing (NaN) in y; "
            "leave these rows out first."
        )
    without_times("y", values)


def check_weight(sample_weight: Any, n_rows: int) -> Float64[np.ndarray, " N"] | None:
    """Return the weights of rows as numbers, if there are any; raise an error about masked ones."""
    if sample_weight is None:
        return None
    if np.ma.is_masked(sample_weight):
        raise UserError(
            "Every row must have a weight. Got masked values in sample_weight; set the weight of "
            "rows that do not count to 0."
        )
    return _check_sample_weight(as_numpy(sample_weight), np.empty((n_rows, 1)), dtype=np.float64)


def without_times(name: str, values: Any) -> Any:
    """Return an array whose missing objects are NaN; raise an error if it has dates or times.

    Where only numbers are read, they would become numbers of an unknown unit.
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "MmO":
        return values
    if values.dtype == object:
        missing = np.array([is_missing(value) for value in values.flat], dtype=bool)
        values = np.where(missing.reshape(values.shape), np.nan, values)
    times = (np.datetime64, np.timedelta64, date, timedelta)
    if kinds := {type(value).__name__ for value in values.flat if isinstance(value, times)}:
        raise UserError(
            f"{name} must hold numbers. Got {', '.join(sorted(kinds))}; convert dates and times to "
            "numbers, as in (times - start) / np.timedelta64(1, 'D')."
        )
    return values


LARGEST_STD = 1e150
"""Largest standard deviation of an input, and one over the smallest: their squares are finite."""


def deviation_of(X_std: Any, shape: tuple[int, ...]) -> Float64[np.ndarray, "N D"] | None:
    """Return standard deviations, given as a number, (D,) or (N, D), for every value."""
    if X_std is None:
        return None
    values = as_numpy(X_std)
    try:
        deviation = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"X_std must hold numbers. Got {X_std!r}.") from error
    try:
        deviation = np.broadcast_to(deviation, shape)
    except ValueError as error:
        raise UserError(
            f"X_std must be a number, or have shape (D,) = ({shape[1]},) or (N, D) = {shape}. "
            f"Got X_std.shape={deviation.shape}."
        ) from error
    if not np.all(deviation >= 0):
        raise UserError("X_std must hold standard deviations: no NaN, none negative.")
    known = deviation[deviation > 0]
    for extreme in known[(known > LARGEST_STD) | (known < 1 / LARGEST_STD)]:
        raise UserError(
            f"X_std must be 0 or between {1 / LARGEST_STD:.0e} and {LARGEST_STD:.0e}, so that its "
            f"square is a number. Got {extreme:.4g}; multiply X and X_std by a constant, and make "
            "inputs of which nothing is known NaN."
        )
    return deviation


def as_numpy(values: Any) -> Any:
    """Return tensors as arrays, masked cells as NaN, NaT or None, and anything else as it is.

    scikit-learn converts the rest.
    """
    if isinstance(values, Tensor):
        require_dense(values)
        values = values.detach().cpu().resolve_conj().resolve_neg()
        if values.is_floating_point() and values.dtype not in (torch.float32, torch.float64):
            values = values.to(torch.float32)  # NumPy does not know bfloat16
        return values.numpy()
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return np.asarray(values.data)
    array = np.array(values.data)
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    elif array.dtype.kind in "UST":
        array = array.astype(object)
    missing: Any = {"f": np.nan, "c": np.nan, "M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}
    array[np.ma.getmaskarray(values)] = missing.get(array.dtype.kind)
    return array


def require_dense(tensor: Tensor) -> None:
    """Raise unless a tensor is dense and has values."""
    trouble, cure = None, "pass a dense tensor or an array"
    if tensor.is_nested:
        trouble, cure = "a nested tensor", "use torch.nested.to_padded_tensor(tensor, nan)"
    elif tensor.is_meta:
        trouble, cure = "a tensor on the meta device, which has no values", "pass one that has"
    elif tensor.layout != torch.strided:
        trouble, cure = f"a tensor of layout {tensor.layout}", "use tensor.to_dense()"
    if trouble is not None:
        raise UserError(f"A tensor must be dense and hold numbers. Got {trouble}; {cure}.")


NOT_FINITE = (
    "Predictions must be finite. Those of this model are not: some of its parameters are too large "
    "or too small. Fit it again, or get its file again from where it came."
)

NO_COVARIANCE = (
    "A covariance must be finite in float64. Got targets whose squares are not: use "
    "predict(X, return_std=True), or divide y by a constant before fit."
)


def finite(
    values: Float64[Tensor, "*shape"], message: str = NOT_FINITE
) -> Float64[Tensor, "*shape"]:
    """Return predictions; raise with a message if they are not finite."""
    if not values.isfinite().all():
        raise UserError(message)
    return values


@contextmanager
def finite_algebra() -> Iterator[None]:
    """Raise the error of :func:`finite` where a matrix of the body cannot be factorised."""
    try:
        yield
    except FactorisationError as error:
        raise UserError(f"{NOT_FINITE} {error}") from error
