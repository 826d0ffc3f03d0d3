"""Checks of the rows that a figure is given, and where it evaluates the model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from jaxtyping import Float64, Shaped
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from sswim.estimator.regressor import SSWIMRegressor

_GRID = 600
"""Positions of a curve besides the rows themselves."""

_MOST_ROWS = 2000
"""Rows at which a curve is evaluated as well; of more, as many evenly spaced in rank."""


def require_inputs(regressor: SSWIMRegressor, n_inputs: int) -> None:
    """Refuse a model with fewer or more inputs than a figure has room for."""
    check_is_fitted(regressor)
    if regressor.n_features_in_ != n_inputs:
        raise ValueError(
            f"This figure is of a model with {n_inputs} input{'s' * (n_inputs > 1)}. Got one with "
            f"{regressor.n_features_in_}; choose another figure, or fit fewer or more columns."
        )


def require_column(rows: Float64[np.ndarray, "N D"], column: int) -> None:
    """Refuse the number of an input that is not there."""
    n_inputs = rows.shape[1]
    if not 0 <= column < n_inputs:
        raise ValueError(
            f"column must be one of the {n_inputs} inputs, counted from 0. Got {column}."
        )


def checked_inputs(
    regressor: SSWIMRegressor, X: ArrayLike, n_inputs: int | None = None
) -> Float64[np.ndarray, "N D"]:
    """Check rows as the regressor does, the names of their columns included."""
    check_is_fitted(regressor)
    if n_inputs is not None:
        require_inputs(regressor, n_inputs)
    return validate_data(regressor, X, dtype=np.float64, reset=False)


def checked_targets(
    regressor: SSWIMRegressor, X: ArrayLike, y: ArrayLike
) -> Float64[np.ndarray, " N"]:
    """Check targets: a single one, and one row of it for each of X."""
    check_is_fitted(regressor)
    _, targets = validate_data(
        regressor, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=False
    )
    return single_target(np.asarray(targets, dtype=np.float64))


def single_target(values: Shaped[np.ndarray, "N ..."]) -> Float64[np.ndarray, " N"]:
    """Values of the only target, without the axis of targets."""
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(
            f"This figure is of a single target. Got {values.shape[1]}; fit a model to one of them."
        )
    return values.reshape(-1)


def some(values: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " S"]:
    """The values; of very many, some evenly spaced in rank, both ends included."""
    if len(values) <= _MOST_ROWS:
        return values
    ranks = np.linspace(0, len(values) - 1, _MOST_ROWS).round().astype(int)
    return np.sort(values)[ranks]


def positions(rows: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " M"]:
    """Where to evaluate a curve: evenly over the rows' range, and where the rows are."""
    return np.union1d(some(rows), np.linspace(rows.min(), rows.max(), _GRID))


def name(regressor: SSWIMRegressor, column: int) -> str:
    """What an input is called."""
    names = getattr(regressor, "feature_names_in_", None)
    if names is not None:
        return str(names[column])
    return "input" if regressor.n_features_in_ == 1 else f"input {column + 1}"


@contextmanager
def names_checked() -> Iterator[None]:
    """Arrays have no column names, which scikit-learn warns of where data frames were learnt."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
