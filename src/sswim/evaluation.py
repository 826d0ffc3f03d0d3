"""How well a fitted regressor predicts rows whose targets are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sswim.regressor import SSWIMRegressor


@dataclass(frozen=True)
class Scores:
    """The metrics of the paper, and two that readers of tables know."""

    rmse: float
    """Root mean square error, in the units of the target."""
    mnlp: float
    """Mean negative log probability of the observations, in nats."""
    r2: float
    """The share of the variance that the mean explains."""
    coverage: float
    """The share of observations within their intervals."""


def evaluate(regressor: SSWIMRegressor, X: Any, y: Any, coverage: float = 0.9) -> Scores:
    """Score predictions; ``coverage`` is the nominal one of the intervals."""
    lower, upper = regressor.predict_interval(X, coverage)
    targets = np.asarray(y)
    error = np.asarray(regressor.predict(X)) - targets
    return Scores(
        rmse=float(np.sqrt(np.mean(np.square(error)))),
        mnlp=-float(np.mean(regressor.log_density(X, y))),
        r2=float(regressor.score(X, y)),
        coverage=float(np.mean((lower <= targets) & (targets <= upper))),
    )
