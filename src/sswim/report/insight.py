"""What a report asks a model about its columns: which matter, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sswim.estimator.permutation import ColumnImportance
from sswim.estimator.regressor import SSWIMRegressor
from sswim.insight.effect import Effect
from sswim.insight.relevance import Relevance
from sswim.report.rows import ReportRows
from sswim.rows.row_sample import smallest_keys

MAX_EFFECTS = 9
"""Largest number of columns whose effects are drawn."""

EFFECT_ROWS = 40
"""Number of rows that an effect is averaged over."""

EFFECT_POINTS = 16
"""Number of values of a column at which its effect is computed."""

N_REPEATS = 2
"""Number of times that each column is shuffled."""

MAX_SHUFFLED = 10_000
"""Largest number of predictions of rows with a shuffled column, if there are few columns."""


@dataclass(frozen=True)
class Insight:
    """Which columns matter to a model, and how."""

    importance: tuple[ColumnImportance, ...]
    """Rises of scores when a column is shuffled, the largest first."""
    n_shuffled: int
    """Number of rows that were shuffled."""
    relevance: Relevance
    effects: tuple[Effect, ...]
    """Effects of the most important columns."""


def shuffled_rows(rows: ReportRows) -> int:
    """Return how many rows are shuffled: fewer if there are many columns."""
    most = MAX_SHUFFLED // (N_REPEATS * max(1, len(rows.columns)))
    return min(len(rows), max(60, min(1000, most)))


def insight_cost(rows: ReportRows) -> int:
    """Return about how many rows are predicted."""
    n_columns = len(rows.columns)
    effects = min(MAX_EFFECTS, n_columns) * EFFECT_POINTS * EFFECT_ROWS
    return N_REPEATS * n_columns * shuffled_rows(rows) + effects


def find_insight(
    regressor: SSWIMRegressor,
    rows: ReportRows,
    random_state: int,
    advance: Callable[[int], object],
) -> Insight:
    """Ask a model which columns matter on rows with known targets, and how.

    Args:
        regressor: A fitted estimator of one target.
        rows: At least two rows.
        random_state: Seed of the samples of rows and of the shuffles.
        advance: Called with the number of rows that were predicted since its last call.
    """
    size = shuffled_rows(rows)
    chosen = smallest_keys(np.arange(len(rows)), size, random_state)
    inputs: Any = rows.inputs
    shuffled = inputs[chosen] if isinstance(inputs, np.ndarray) else inputs.take(chosen)
    importance = regressor.permutation_importance(
        shuffled, rows.targets[chosen], n_repeats=N_REPEATS, random_state=random_state
    )
    advance(N_REPEATS * len(rows.columns) * size)
    relevance = regressor.relevance(inputs)
    effects = []
    for name in _effect_names([column.name for column in importance.columns], relevance):
        which = relevance.names.index(name) if isinstance(inputs, np.ndarray) else name
        effects.append(regressor.effect(which, inputs, grid=EFFECT_POINTS, max_rows=EFFECT_ROWS))
        advance(EFFECT_POINTS * EFFECT_ROWS)
    return Insight(importance.columns, size, relevance, tuple(effects))


def _effect_names(names: list[str], relevance: Relevance) -> list[str]:
    """Return the columns whose effects are drawn, the most important first.

    Longitude and latitude have no effects of their own: they are one point on the sphere.
    """
    return [name for name in names if name in relevance.names][:MAX_EFFECTS]
