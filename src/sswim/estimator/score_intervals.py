"""Scores of rows with intervals that say how much they depend on which rows were drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy import stats

from sswim.estimator.row_scores import RowScores

N_DRAWS = 1000
"""Number of bootstrap samples."""

LEVEL = 0.95
"""Coverage of the intervals of scores."""

COVERAGES = (0.5, 0.8, 0.9, 0.95)
"""Nominal coverages of the predictive intervals that are scored."""

_DRAWS_TOGETHER = 100
"""Number of bootstrap samples in memory at the same time."""


@dataclass(frozen=True)
class ScoreInterval:
    """A score of some rows, and the interval in which that of all rows like them lies."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ScoreIntervals:
    """The scores of a report, with 95 % intervals."""

    rmse: ScoreInterval
    mae: ScoreInterval
    r2: ScoreInterval
    mnlp: ScoreInterval
    crps: ScoreInterval
    coverage: dict[float, ScoreInterval]
    """Share of targets within central intervals, by their nominal coverage."""


def score_intervals(
    rows: RowScores, *, coverages: Sequence[float] = COVERAGES, random_state: int = 0
) -> ScoreIntervals:
    """Average the scores of rows, and find intervals of the averages.

    Coverages have exact binomial (Clopper-Pearson) intervals; the others have percentiles of
    bootstrap samples, which hold if the rows are independent.

    Args:
        rows: Scores of single rows.
        coverages: Nominal coverages of the predictive intervals to score.
        random_state: Seed of the bootstrap samples.
    """
    centred = rows.target - rows.target.mean()  # small numbers, so that squares lose no digits
    columns = [
        np.square(rows.residual),
        np.abs(rows.residual),
        rows.log_density,
        rows.crps,
        centred,
        np.square(centred),
    ]
    means = _bootstrap_means(np.stack(columns, axis=1), np.random.default_rng(random_state))
    squared, absolute, density, crps, first, second = means.T

    def interval(values: Float64[np.ndarray, " draws"]) -> ScoreInterval:
        tails = 0.5 * (1 - LEVEL), 0.5 * (1 + LEVEL)
        finite = values[1:][np.isfinite(values[1:])]
        low, high = np.quantile(finite, tails) if finite.size else (np.nan, np.nan)
        return ScoreInterval(float(values[0]), float(low), float(high))

    with np.errstate(divide="ignore", invalid="ignore"):
        r2 = 1 - squared / (second - np.square(first))
    return ScoreIntervals(
        rmse=interval(np.sqrt(squared)),
        mae=interval(absolute),
        r2=interval(r2),
        mnlp=interval(-density),
        crps=interval(crps),
        coverage={each: share_interval(rows.inside(each)) for each in coverages},
    )


def share_interval(inside: Float64[np.ndarray, " N"]) -> ScoreInterval:
    """Return the share of ones among zeros and ones, with its exact binomial interval."""
    found = stats.binomtest(int(inside.sum()), len(inside)).proportion_ci(LEVEL)
    return ScoreInterval(float(inside.mean()), float(found.low), float(found.high))


def _bootstrap_means(
    values: Float64[np.ndarray, "N C"], generator: np.random.Generator
) -> Float64[np.ndarray, "draws C"]:
    """Return the means of the rows, and then those of ``N_DRAWS`` bootstrap samples of them."""
    n_rows = len(values)
    means = [values.mean(axis=0, keepdims=True)]
    for _ in range(0, N_DRAWS, _DRAWS_TOGETHER):
        counts = generator.multinomial(n_rows, np.full(n_rows, 1 / n_rows), size=_DRAWS_TOGETHER)
        means.append(counts @ values / n_rows)
    return np.concatenate(means)
