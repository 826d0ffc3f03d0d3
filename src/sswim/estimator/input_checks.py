"""Checks of the arrays, data frames and tensors that users pass to the estimator."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from sswim.base.errors import UserError
from sswim.base.frame_kinds import is_missing
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows, as_measure, as_rows

_NO_TARGETS = "fit requires y to be passed, but the target y is None."

LARGEST_STD = 1e150
"""Largest standard deviation of an input, and one over the smallest: their squares are finite."""


def as_numpy(values: Any) -> Any:
    """Return tensors as arrays, masked cells as missing values, and anything else as it is.

    scikit-learn converts the rest.
    """
    if isinstance(values, Tensor):
        return _tensor_array(values)
    if isinstance(values, np.ma.MaskedArray):
        return _without_mask(values)
    return values


def _require_dense(tensor: Tensor) -> None:
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


def _tensor_array(tensor: Tensor) -> np.ndarray:
    """Return a dense tensor of numbers, of any precision and on any device, as an array."""
    _require_dense(tensor)
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.to(torch.float32)  # NumPy does not know bfloat16
    return tensor.numpy()


def _without_mask(values: np.ma.MaskedArray) -> np.ndarray:
    """Return an array in which masked cells are missing: NaN, NaT or None."""
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


def check_weight(sample_weight: Any, n_rows: int) -> Float64[np.ndarray, " N"]:
    """Return the weights of rows as numbers; raise an error about masked ones."""
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
        missing = np.array([is_missing(each) for each in values.flat], dtype=bool)
        values = np.where(missing.reshape(values.shape), np.nan, values)
    times = (np.datetime64, np.timedelta64, date, timedelta)
    if kinds := {type(each).__name__ for each in values.flat if isinstance(each, times)}:
        raise UserError(
            f"{name} must hold numbers. Got {', '.join(sorted(kinds))}; convert dates and times to "
            "numbers, as in (times - start) / np.timedelta64(1, 'D')."
        )
    return values


def check_rows(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    X_std: Any = None,
    *,
    dtype: torch.dtype,
    reset: bool,
) -> Rows:
    """Check inputs with targets, and make rows of them.

    Args:
        estimator: The estimator that the rows are for.
        X: Inputs: an array (N, D); later, anything that the fitted estimator reads.
        y: Targets, (N,) or (N, T); later also the name of the target column of a frame or table.
        sample_weight: How many times each row counts, (N,).
        X_std: Known standard deviation of the columns: a number, (D,) or (N, D).
        dtype: Precision of the inputs.
        reset: Whether the rows define the number and the names of the estimator's inputs, as in
            ``fit``; else they are checked against these.
    """
    if reset:
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
        variance = variance_of(X_std, inputs.shape)
    else:
        if isinstance(y, str):
            X, y = estimator._reader.split_target(X, y)
        encoded = estimator._reader.read(estimator, X, X_std)
        inputs, variance = encoded.inputs, encoded.variance
        targets = check_targets(y)
    if sample_weight is not None:
        sample_weight = check_weight(sample_weight, len(inputs))
    rows = as_rows(inputs, targets, sample_weight, variance, dtype)
    if not reset and rows.targets.shape[1] != estimator.n_targets_:
        raise UserError(
            f"y must have the {estimator.n_targets_} targets of fit. Got y.shape={targets.shape}."
        )
    return rows


def check_inputs(
    estimator: BaseEstimator, X: Any, X_std: Any = None, *, dtype: torch.dtype
) -> Measure:
    """Check inputs without targets against those of ``fit``, and make a measure of them."""
    encoded = estimator._reader.read(estimator, X, X_std)
    return as_measure(encoded.inputs, encoded.variance, dtype)


def check_points(estimator: BaseEstimator, X: Any) -> None:
    """Check a tensor of inputs (…, q, D), which stays as it is to keep its gradient."""
    if not isinstance(X, Tensor):
        raise UserError(
            f"X must be a torch tensor here. Got {type(X).__name__}; use torch.as_tensor(X), or "
            "predict(X, return_cov=True) and sample_y(X) for arrays, frames and tables."
        )
    estimator._reader.require_plain()
    _require_dense(X)
    if X.is_complex():
        raise UserError(f"X must hold real numbers. Got a tensor of {X.dtype}; use X.real.")
    n_inputs = estimator.n_features_in_
    if X.ndim < 2 or X.shape[-1] != n_inputs:
        raise UserError(
            f"X must have shape (…, q, D), with the D = {n_inputs} inputs of fit along its last "
            f"axis. Got X.shape={tuple(X.shape)}."
        )
    if not X.isfinite().all():
        raise UserError(
            "X must be finite. Got NaN or infinite values; predict(X) fills in missing ones (NaN)."
        )


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
        missing = np.array([[is_missing(each) for each in row] for row in values])
    elif values.dtype.kind in "fMm":
        missing = np.isnat(values) if values.dtype.kind in "Mm" else np.isnan(values)
    if n_missing := int(missing.any(axis=1).sum()):
        raise UserError(
            f"Every row must have a target. Got {n_missing} of {len(array)} missing (NaN) in y; "
            "leave these rows out first."
        )
    without_times("y", values)


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
    if np.any(deviation > LARGEST_STD) or np.any((deviation > 0) & (deviation < 1 / LARGEST_STD)):
        wrong = (
            deviation.max() if np.any(deviation > LARGEST_STD) else deviation[deviation > 0].min()
        )
        raise UserError(
            f"X_std must be 0 or between {1 / LARGEST_STD:.0e} and {LARGEST_STD:.0e}, so that its "
            f"square is a number. Got {wrong:.4g}; multiply X and X_std by a constant, and make "
            "inputs of which nothing is known NaN."
        )
    return deviation


def variance_of(X_std: Any, shape: tuple[int, ...]) -> Float64[np.ndarray, "N D"] | None:
    """Return the variance of inputs whose standard deviation is a number, (D,) or (N, D)."""
    deviation = deviation_of(X_std, shape)
    return None if deviation is None else np.square(deviation)
