"""Checks of the rows given to a figure, and the points at which its curves are evaluated."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from jaxtyping import Float64, Shaped
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from sswim.estimator.regressor import SSWIMRegressor

_GRID_POINTS = 600
"""Number of evenly spaced points of a curve; it is also evaluated at the rows themselves."""

_MAX_ROWS = 2000
"""Largest number of rows at which a curve is evaluated; larger tables are thinned."""


def require_inputs(regressor: SSWIMRegressor, n_inputs: int) -> None:
    """Raise an error unless the model has the number of inputs that the figure can show."""
    check_is_fitted(regressor)
    if regressor.n_features_in_ != n_inputs:
        raise ValueError(
            f"This figure needs a model with {n_inputs} input{'s' * (n_inputs > 1)}. Got a model "
            f"with {regressor.n_features_in_}; choose another figure, or fit {n_inputs}."
        )


def require_column(rows: Float64[np.ndarray, "N D"], column: int) -> None:
    """Raise an error unless the rows have a column of this number."""
    n_inputs = rows.shape[1]
    if not 0 <= column < n_inputs:
        raise ValueError(
            f"column must be one of the {n_inputs} inputs, counted from 0. Got {column}."
        )


def check_inputs(
    regressor: SSWIMRegressor, X: ArrayLike, n_inputs: int | None = None
) -> Float64[np.ndarray, "N D"]:
    """Return rows as an array, after the regressor's own checks, column names included."""
    check_is_fitted(regressor)
    if n_inputs is not None:
        require_inputs(regressor, n_inputs)
    return validate_data(regressor, X, dtype=np.float64, reset=False)


def check_targets(
    regressor: SSWIMRegressor, X: ArrayLike, y: ArrayLike
) -> Float64[np.ndarray, " N"]:
    """Return the targets as a vector; raise an error unless X has one row for each."""
    check_is_fitted(regressor)
    _, targets = validate_data(
        regressor, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=False
    )
    return single_target(np.asarray(targets, dtype=np.float64))


def single_target(values: Shaped[np.ndarray, "N ..."]) -> Float64[np.ndarray, " N"]:
    """Return values as a vector; raise an error if they belong to several targets."""
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(
            f"This figure shows a single target. Got {values.shape[1]}; fit a model to one of them."
        )
    return values.reshape(-1)


def thin(values: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " S"]:
    """Return at most ``_MAX_ROWS`` of the values, evenly spaced in rank, both ends included."""
    if len(values) <= _MAX_ROWS:
        return values
    ranks = np.linspace(0, len(values) - 1, _MAX_ROWS).round().astype(int)
    return np.sort(values)[ranks]


def curve_points(rows: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " M"]:
    """Return the points at which to evaluate a curve: the rows, and a grid over their range."""
    return np.union1d(thin(rows), np.linspace(rows.min(), rows.max(), _GRID_POINTS))


def input_name(regressor: SSWIMRegressor, column: int) -> str:
    """Return the name of an input: its column in a data frame, or else its number."""
    names = getattr(regressor, "feature_names_in_", None)
    if names is not None:
        return str(names[column])
    return "input" if regressor.n_features_in_ == 1 else f"input {column + 1}"


@contextmanager
def allow_unnamed_inputs() -> Iterator[None]:
    """Silence scikit-learn's warning that an array has no column names.

    The figures evaluate a model at arrays of their own, even if it was fitted to a data frame.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
