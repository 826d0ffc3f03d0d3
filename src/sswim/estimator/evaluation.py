"""Scores of a fitted estimator on rows whose targets are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float64
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from sswim.base.record import Record
from sswim.base.validation import require_coverage
from sswim.estimator.input_checks import check_rows
from sswim.rows.moments import Moments, moments

if TYPE_CHECKING:
    from sswim.estimator.prediction_methods import PredictionMethods
    from sswim.estimator.regressor import SSWIMRegressor


@dataclass(frozen=True)
class Scores:
    """The metrics of the paper, R² and the coverage of intervals."""

    rmse: float
    """Root mean square error, in the units of the target."""
    mnlp: float
    """Mean negative log probability of the observations, in nats."""
    r2: float
    """Share of the variance that the mean explains; NaN for a single row."""
    coverage: float
    """Share of observations within their intervals."""
    n_rows: int
    n_left_out: int = 0
    """Number of rows of a table that were left out because values are missing."""


def evaluate(regressor: SSWIMRegressor, X: Any, y: Any, coverage: float = 0.9) -> Scores:
    """Score predictions of rows with known targets.

    Args:
        regressor: A fitted estimator.
        X: Inputs, (N, D).
        y: Targets, (N,) or (N, T).
        coverage: Nominal coverage of the intervals.
    """
    return sum_scores(regressor, X, y, coverage).scores()


@dataclass(frozen=True)
class ScoreSums(Record):
    """Sums over rows that the scores follow from; ``+`` adds those of two sets of rows."""

    targets: Moments
    squared_error: Float64[Tensor, " T"]
    log_density: Float64[Tensor, " T"]
    n_inside: Float64[Tensor, " T"]
    """Number of observations within their intervals."""

    def __add__(self, other: ScoreSums) -> ScoreSums:
        return ScoreSums(
            self.targets + other.targets,
            self.squared_error + other.squared_error,
            self.log_density + other.log_density,
            self.n_inside + other.n_inside,
        )

    def scores(self) -> Scores:
        """Return averages over rows and targets."""
        n_rows = int(self.targets.weight)
        return Scores(
            rmse=(self.squared_error / n_rows).mean().sqrt().item(),
            mnlp=-(self.log_density / n_rows).mean().item(),
            r2=self._r2().mean().item() if n_rows > 1 else math.nan,
            coverage=(self.n_inside / n_rows).mean().item(),
            n_rows=n_rows,
        )

    def _r2(self) -> Float64[Tensor, " T"]:
        """Return R² as scikit-learn defines it: 1 or 0 for a constant target."""
        error, total = self.squared_error, self.targets.weight * self.targets.spread.square()
        return 1 - torch.where(total > 0, error / total, (error > 0).double())


def sum_scores(regressor: PredictionMethods, X: Any, y: Any, coverage: float) -> ScoreSums:
    """Predict rows with known targets, and sum what their scores need."""
    require_coverage(coverage)
    check_is_fitted(regressor)
    rows = check_rows(regressor, X, y, dtype=torch.float64, reset=False)
    mixture = regressor.predict_distribution(X)
    targets = rows.targets.to(mixture.weights.device)
    # y lies between two quantiles if its cdf does: no quantile has to be found.
    inside = (mixture.cdf(targets) - 0.5).abs() <= 0.5 * coverage
    return ScoreSums(
        moments(targets, None),
        (mixture.mean - targets).square().sum(0),
        mixture.log_density(targets).sum(0),
        inside.double().sum(0),
    ).to(device=torch.device("cpu"))
