"""Predictive densities that are mixtures of Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp, ndtr

from sswim.lab.peers.protocol import Gaussian

BISECTIONS = 60
"""Halvings that take a quantile's bracket below the rounding of float64."""


@dataclass(frozen=True)
class GaussianMixture:
    """Mixtures of S Gaussians of the same weight."""

    means: Float64[np.ndarray, "S M"]
    variances: Float64[np.ndarray, "S M"]

    @property
    def mean(self) -> Float64[np.ndarray, " M"]:
        """The mean of the means."""
        return self.means.mean(axis=0)

    @property
    def variance(self) -> Float64[np.ndarray, " M"]:
        """The mean of the variances, and how much the means disagree."""
        return self.variances.mean(axis=0) + self.means.var(axis=0)

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """log p(y) of each."""
        densities = Gaussian(self.means.ravel(), self.variances.ravel()).log_density(
            np.tile(y, len(self.means))
        )
        return logsumexp(densities.reshape(self.means.shape), axis=0) - np.log(len(self.means))

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Ends of the central intervals with a nominal coverage."""
        return self._quantile(0.5 * (1 - coverage)), self._quantile(0.5 * (1 + coverage))

    def _quantile(self, probability: float) -> Float64[np.ndarray, " M"]:
        """By bisection between the quantiles of the Gaussians."""
        deviations = np.sqrt(self.variances)
        candidates = self.means + NormalDist().inv_cdf(probability) * deviations
        low, high = candidates.min(axis=0), candidates.max(axis=0)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            below = ndtr((middle - self.means) / deviations).mean(axis=0) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)
