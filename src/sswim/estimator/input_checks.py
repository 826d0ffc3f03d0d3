"""Checks of the arrays, data frames and tensors that users pass to the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, validate_data
from torch import Tensor

from sswim.base.errors import UserError
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
        X: Inputs, (N, D).
        y: Targets, (N,) or (N, T).
        sample_weight: How many times each row counts, (N,).
        X_std: Known standard deviation of the inputs: a number, (D,) or (N, D).
        dtype: Precision of the inputs.
        reset: Whether the rows define the number and the names of the estimator's inputs, as in
            ``fit``; else they are checked against these.
    """
    inputs, targets = validate_data(
        estimator,
        as_numpy(X),
        as_numpy(y),
        dtype=np.float64,
        multi_output=True,
        y_numeric=True,
        ensure_min_samples=2 if reset else 1,
        reset=reset,
    )
    if sample_weight is not None:
        sample_weight = _check_sample_weight(as_numpy(sample_weight), inputs)
    rows = as_rows(inputs, targets, sample_weight, _variance(X_std, inputs.shape), dtype)
    if not reset and rows.targets.shape[1] != estimator.n_targets_:
        raise UserError(
            f"y must have the {estimator.n_targets_} targets of fit. Got y.shape={targets.shape}."
        )
    return rows


def check_inputs(
    estimator: BaseEstimator, X: Any, X_std: Any = None, *, dtype: torch.dtype
) -> Measure:
    """Check inputs without targets against those of ``fit``, and make a measure of them."""
    inputs = validate_data(estimator, as_numpy(X), dtype=np.float64, reset=False)
    return as_measure(inputs, _variance(X_std, inputs.shape), dtype)


def _variance(X_std: Any, shape: tuple[int, ...]) -> Float64[np.ndarray, "N D"] | None:
    """Return the variance of inputs whose standard deviation is a number, (D,) or (N, D)."""
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
    return np.square(deviation)
