"""Predictions and scores of single rows whose targets are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from sswim.base.errors import UserError
from sswim.estimator.input_checks import check_rows
from sswim.estimator.regressor import SSWIMRegressor
from sswim.posterior.crps import mixture_crps

CHUNK_ROWS = 500
"""Number of rows that are predicted together; the CRPS needs hundreds of numbers for each."""

COVERAGE = 0.9
"""Nominal coverage of the intervals."""


@dataclass(frozen=True)
class RowScores:
    """Predictions of rows of one target, and how well they meet the observations."""

    target: Float64[np.ndarray, " N"]
    mean: Float64[np.ndarray, " N"]
    deviation: Float64[np.ndarray, " N"]
    """Standard deviation of a new observation."""
    noise: Float64[np.ndarray, " N"]
    """Standard deviation of the noise alone."""
    lower: Float64[np.ndarray, " N"]
    """Lower end of the central interval of ``COVERAGE``."""
    upper: Float64[np.ndarray, " N"]
    pit: Float64[np.ndarray, " N"]
    """Predicted probability of a smaller target."""
    log_density: Float64[np.ndarray, " N"]
    """Log probability density of the target, in nats."""
    crps: Float64[np.ndarray, " N"]
    """Continuous ranked probability score, in the units of the target."""

    @property
    def residual(self) -> Float64[np.ndarray, " N"]:
        """Target minus predicted mean."""
        return self.target - self.mean

    def inside(self, coverage: float) -> Float64[np.ndarray, " N"]:
        """Return 1 for targets within their central interval of a coverage, else 0."""
        return (np.abs(self.pit - 0.5) <= 0.5 * coverage).astype(np.float64)


def score_rows(
    regressor: SSWIMRegressor, X: Any, y: Any, advance: Callable[[int], object] | None = None
) -> RowScores:
    """Predict rows with known targets, and score each of them.

    Args:
        regressor: A fitted estimator of one target.
        X: Inputs, an array or an Arrow table.
        y: Targets, (N,) or (N, 1).
        advance: Called with the number of rows that were predicted since its last call.
    """
    if regressor.n_targets_ != 1:
        raise UserError(
            f"Rows are scored for one target. Got a model of {regressor.n_targets_}; fit one "
            "model for each target."
        )
    n_rows = len(X)
    parts = []
    for first in range(0, n_rows, CHUNK_ROWS):
        size = min(CHUNK_ROWS, n_rows - first)
        inputs = X[first : first + size]
        parts.append(_score_chunk(regressor, inputs, y[first : first + size]))
        if advance is not None:
            advance(size)
    return RowScores(
        *(
            np.concatenate([getattr(part, each.name) for part in parts])
            for each in fields(RowScores)
        )
    )


def _score_chunk(regressor: SSWIMRegressor, X: Any, y: Any) -> RowScores:
    rows = check_rows(regressor, X, y, dtype=torch.float64, reset=False)
    mixture = regressor.predict_distribution(X)
    targets = rows.targets.to(mixture.weights.device)
    tails = mixture.quantiles([0.5 * (1 - COVERAGE), 0.5 * (1 + COVERAGE)])
    quantiles = [member.quantile for member in mixture.members]
    found = (
        targets,
        mixture.mean,
        mixture.standard_deviation,
        mixture.noise_deviation,
        tails[..., 0],
        tails[..., 1],
        mixture.cdf(targets),
        mixture.log_density(targets),
        mixture_crps(quantiles, mixture.weights, targets),
    )
    return RowScores(*(values.reshape(-1).cpu().numpy() for values in found))
