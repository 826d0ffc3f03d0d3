"""A held-out tenth of the training rows: it stops the training early and gives the variance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from sswim_lab.peers.protocol import Gaussian

HELD_OUT_VARIANCE = "Gaussian, its constant variance the mean square error on the held-out tenth"


@dataclass(frozen=True)
class HeldOutSplit:
    """Training rows and a held-out tenth, their targets standardised by the moments of both."""

    x: Float64[np.ndarray, "N D"]
    y: Float64[np.ndarray, " N"]
    held_out_x: Float64[np.ndarray, "H D"]
    held_out_y: Float64[np.ndarray, " H"]
    target_mean: float
    target_spread: float


def hold_out_tenth(
    x: Float64[np.ndarray, "N D"], y: Float64[np.ndarray, " N"], seed: int
) -> HeldOutSplit:
    """Hold out a random tenth of the rows, and standardise the target."""
    # Otherwise the libraries' absolute tolerances would stop the training on small targets at once.
    mean, spread = float(y.mean()), float(y.std()) or 1.0
    order = np.random.default_rng(seed).permutation(len(y))
    held_out, kept = np.split(order, [max(1, round(len(y) / 10))])
    standard = (y - mean) / spread
    return HeldOutSplit(x[kept], standard[kept], x[held_out], standard[held_out], mean, spread)


@dataclass(frozen=True)
class ConstantVariance:
    """A fitted mean of the standardised target, and a variance that all rows share."""

    model: Any
    variance: float
    target_mean: float
    target_spread: float

    @classmethod
    def from_held_out(cls, model: Any, rows: HeldOutSplit) -> ConstantVariance:
        """Take the mean square error on the held-out rows as the variance."""
        error = rows.held_out_y - np.asarray(model.predict(rows.held_out_x))
        return cls(model, float(np.mean(np.square(error))), rows.target_mean, rows.target_spread)

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        standard = np.asarray(self.model.predict(x), dtype=np.float64)
        mean = self.target_mean + self.target_spread * standard
        return Gaussian(mean, np.full(len(x), self.target_spread**2 * self.variance))


@dataclass(frozen=True)
class LearntVariance:
    """A fitted model of the mean and the variance of the standardised target."""

    moments: Callable[[Float64[np.ndarray, "M D"]], tuple[Any, Any]]
    """Returns the means and variances at rows."""
    target_mean: float
    target_spread: float

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        mean, variance = (np.asarray(moment, dtype=np.float64) for moment in self.moments(x))
        return Gaussian(
            self.target_mean + self.target_spread * mean, self.target_spread**2 * variance
        )
