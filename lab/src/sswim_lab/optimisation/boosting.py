"""Tuning the settings of LightGBM for a data set."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from jaxtyping import Float64

from sswim_lab.datasets import Table, load

N_TREES, N_FOLDS = 100, 3

BOUNDS = (
    (math.log(0.005), math.log(0.5)),  # learning rate
    (math.log(2), math.log(128)),  # leaves of a tree
    (0.0, math.log(100)),  # rows of a leaf, at least
    (math.log(1e-3), math.log(100)),  # penalty of squared weights
    (0.2, 1.0),  # fraction of the inputs for a tree
    (0.2, 1.0),  # fraction of the rows for a tree
)


def cross_validated_error(data_set: str) -> Callable[[Float64[np.ndarray, " 6"]], float]:
    """Return the function to minimise: the RMSE of 100 trees, over three folds of fixed rows.

    Its inputs are six settings, the first four as logarithms; numbers of leaves and rows are
    rounded, so that it has steps.
    """

    def function(settings: Float64[np.ndarray, " 6"]) -> float:
        import lightgbm  # noqa: PLC0415 (an optional dependency)

        rate, leaves, rows, penalty = map(math.exp, settings[:4])
        parameters = {
            "objective": "regression",
            "learning_rate": rate,
            "num_leaves": round(leaves),
            "min_data_in_leaf": round(rows),
            "lambda_l2": penalty,
            "feature_fraction": float(settings[4]),
            "bagging_fraction": float(settings[5]),
            "bagging_freq": 1,
            "seed": 0,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "verbosity": -1,
        }
        table, folds = _rows(data_set)
        squares = 0.0
        for fold in range(N_FOLDS):
            train = folds != fold
            model = lightgbm.train(
                parameters, lightgbm.Dataset(table.x[train], table.y[train]), N_TREES
            )
            errors = model.predict(table.x[~train], num_threads=1) - table.y[~train]
            squares += float(np.sum(errors**2))
        return math.sqrt(squares / len(table.y))

    return function


@cache
def _rows(data_set: str) -> tuple[Table, np.ndarray]:
    """Return the rows and the fold of each."""
    table = load(data_set)
    return table, np.random.RandomState(0).permutation(len(table.y)) % N_FOLDS
