"""Checks of the arrays, data frames and tensors that users pass to the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Tensor

from sswim.base.errors import UserError
from sswim.base.frame_kinds import is_missing
from sswim.rows.measure import Measure
from sswim.rows.rows import Rows, as_measure, as_rows


def as_numpy(values: Any) -> Any:
    """Return tensors as arrays, and anything else as it is for scikit-learn to convert."""
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


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
        if y is not None:
            require_known_targets(y)
        inputs, targets = validate_data(
            estimator,
            as_numpy(X),
            as_numpy(y),
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
        )
        variance = variance_of(X_std, inputs.shape)
    else:
        if isinstance(y, str):
            X, y = estimator._reader.split_target(X, y)
        encoded = estimator._reader.read(estimator, X, X_std)
        inputs, variance = encoded.inputs, encoded.variance
        targets = check_targets(y)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(as_numpy(sample_weight), inputs)
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


def check_targets(y: Any) -> Float64[np.ndarray, " N"] | Float64[np.ndarray, "N T"]:
    """Return targets as numbers; raise an error that counts those that are missing."""
    if y is None:
        raise UserError("fit requires y to be passed, but the target y is None.")
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
    elif values.dtype.kind == "f":
        missing = np.isnan(values)
    if n_missing := int(missing.any(axis=1).sum()):
        raise UserError(
            f"Every row must have a target. Got {n_missing} of {len(array)} missing (NaN) in y; "
            "leave these rows out first."
        )


def deviation_of(X_std: Any, shape: tuple[int, ...]) -> Float64[np.ndarray, "N D"] | None:
    """Return standard deviations, given as a number, (D,) or (N, D), for every value."""
    if X_std is None:
        return None
    deviation = np.asarray(as_numpy(X_std), dtype=np.float64)
    try:
        deviation = np.broadcast_to(deviation, shape)
    except ValueError as error:
        raise UserError(
            f"X_std must be a number, or have shape (D,) = ({shape[1]},) or (N, D) = {shape}. "
            f"Got X_std.shape={deviation.shape}."
        ) from error
    if not np.all(deviation >= 0):
        raise UserError("X_std must hold standard deviations: no NaN, none negative.")
    return deviation


def variance_of(X_std: Any, shape: tuple[int, ...]) -> Float64[np.ndarray, "N D"] | None:
    """Return the variance of inputs whose standard deviation is a number, (D,) or (N, D)."""
    deviation = deviation_of(X_std, shape)
    return None if deviation is None else np.square(deviation)
