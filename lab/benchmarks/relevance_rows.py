"""Rows of ``relevance.py``: synthetic tables of thirty inputs, ten of which matter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

N_INPUTS = 30
N_RELEVANT = 10
CORRELATION = 0.7
"""Correlation of neighbouring inputs where they are correlated."""
NOISE = 0.3
"""Standard deviation of the noise, in units of that of the function."""


def _additive(x: Array) -> Array:
    """Sum functions of one input each: slopes, waves, bends and steps."""
    return (
        x[:, 0]
        - x[:, 1]
        + np.sin(2 * x[:, 2])
        + np.cos(2 * x[:, 3])
        + np.abs(x[:, 4])
        + np.square(x[:, 5])
        + np.tanh(3 * x[:, 6])
        + np.exp(0.7 * x[:, 7])
        + np.maximum(x[:, 8], 0) * 1.5
        + np.sin(x[:, 9])
    )


def _interactions(x: Array) -> Array:
    """Sum products of pairs, none of which has an effect by itself."""
    return (
        x[:, 0] * x[:, 1]
        + np.sin(x[:, 2]) * x[:, 3] * 1.5
        + np.tanh(x[:, 4] * x[:, 5]) * 1.5
        + x[:, 6] * x[:, 7]
        + np.sin(x[:, 8] * x[:, 9]) * 1.5
    )


def _nonstationary(x: Array) -> Array:
    """Sum functions that vary fast in one region and slowly in another, or in one region only."""
    return (
        np.sin(np.exp(1 + 0.5 * x[:, 0]))
        + np.where(x[:, 1] > 0, 1.5 * np.sin(2 * x[:, 2]), 0.5 * x[:, 2])
        + np.exp(-2 * np.square(x[:, 3] - 0.5)) * 2
        + np.tanh(4 * x[:, 4]) * x[:, 5]
        + np.maximum(x[:, 6], 0) * x[:, 7]
        + x[:, 8]
        + np.square(np.maximum(x[:, 9], 0))
    )


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "additive": _additive,
    "interactions": _interactions,
    "nonstationary": _nonstationary,
}
"""Functions of the first ten inputs."""


@dataclass(frozen=True)
class Case:
    """One synthetic table."""

    function: str
    correlated: bool
    n_rows: int
    seed: int


@dataclass(frozen=True)
class Table:
    """Rows to learn from, further rows to score, and which inputs matter."""

    train_x: Array
    train_y: Array
    test_x: Array
    test_y: Array
    relevant: NDArray[np.bool_]
    shares: Array
    """Shares of the inputs in the total effects of the true function."""


def make_table(case: Case, n_test: int = 500) -> Table:
    """Draw a table; which inputs matter is drawn too."""
    names = sorted(FUNCTIONS)
    random = np.random.default_rng(
        [case.seed, names.index(case.function), case.correlated, case.n_rows]
    )
    n_rows = case.n_rows + n_test
    x = random.normal(size=(n_rows, N_INPUTS))
    if case.correlated:  # each input follows the one before it
        for place in range(1, N_INPUTS):
            own = np.sqrt(1 - CORRELATION**2) * x[:, place]
            x[:, place] = CORRELATION * x[:, place - 1] + own
    order = random.permutation(N_INPUTS)  # neighbours in the chain may matter or not

    def function(rows: Array) -> Array:
        return FUNCTIONS[case.function](rows[:, order[:N_RELEVANT]])

    values = function(x)
    y = values + NOISE * values.std() * random.normal(size=n_rows)
    effects = np.zeros(N_INPUTS)
    for place in range(N_INPUTS):
        changed = x.copy()
        changed[:, place] = x[random.permutation(n_rows), place]
        effects[place] = np.mean(np.square(function(changed) - values))
    relevant = np.isin(np.arange(N_INPUTS), order[:N_RELEVANT])
    n = case.n_rows
    return Table(x[:n], y[:n], x[n:], y[n:], relevant, effects / effects.sum())
