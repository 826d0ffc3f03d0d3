"""Predictive densities that are mixtures of Gaussians."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.numerics import safeguarded_newton
from sswim.base.record import Record
from sswim.ensemble.scores import mixture_crps
from sswim.rows import Scaling


@dataclass(frozen=True)
class GaussianMixture(Record):
    """A mixture Σ_q w_q N(mean_q, variance_q) for every row."""

    weights: Float64[Tensor, " Q"]
    """Weights of the components, the same in every row; their sum is one."""
    means: Float64[Tensor, "M Q"]
    variances: Float64[Tensor, "M Q"]

    def moments(self) -> tuple[Float64[Tensor, " M"], Float64[Tensor, " M"]]:
        """Return the mean and the variance."""
        mean = self.means @ self.weights
        between = (self.means - mean[:, None]).square()
        return mean, (self.variances + between) @ self.weights

    def log_density(self, values: Float64[Tensor, " M"]) -> Float64[Tensor, " M"]:
        """Return the log density of one value for every row."""
        squared = (values[:, None] - self.means).square() / self.variances
        logs = -0.5 * (squared + self.variances.log() + math.log(2 * math.pi))
        return (self.weights.log() + logs).logsumexp(1)

    def cdf(self, values: Float64[Tensor, " M"]) -> Float64[Tensor, " M"]:
        """Return the probability of at most a value, one for every row."""
        deviations = (values[:, None] - self.means) / self.variances.sqrt()
        return torch.special.ndtr(deviations) @ self.weights

    def quantile(self, probability: float) -> Float64[Tensor, " M"]:
        """Return the quantile of every row, by Newton's steps within a bracket."""
        reach = 10 * self.variances.sqrt()
        low, high = (self.means - reach).amin(1), (self.means + reach).amax(1)
        tolerance = 1e-12 * (high - low)

        def error_and_step(values: Tensor) -> tuple[Tensor, Tensor]:
            error = self.cdf(values) - probability
            return error, error * (-self.log_density(values)).exp()

        return safeguarded_newton(error_and_step, self.moments()[0], low, high, lambda _: tolerance)

    def crps(self, values: Float64[Tensor, " M"]) -> Float64[Tensor, " M"]:
        """Return the continuous ranked probability score of one value for every row."""
        # Its own quantiles: there may be more components than levels.
        return mixture_crps(
            lambda probability: self.quantile(probability)[:, None],
            values.new_ones(1),
            values[:, None],
        )


@dataclass(frozen=True)
class MixturePredictive:
    """Mixtures of Gaussians as predictive densities in the units of the target."""

    mixtures: Callable[[], Iterable[GaussianMixture]]
    """Makes the mixtures of the standardised targets, one chunk of rows after another.

    They are made anew for every use, because those of all rows may not fit into memory.
    """
    scaling: Scaling
    mean: Float64[np.ndarray, " M"]
    variance: Float64[np.ndarray, " M"]

    @classmethod
    def from_mixtures(
        cls, mixtures: Callable[[], Iterable[GaussianMixture]], scaling: Scaling
    ) -> MixturePredictive:
        """Compute the moments of the mixtures."""
        moments = [mixture.moments() for mixture in mixtures()]
        mean, variance = (torch.cat(parts) for parts in zip(*moments, strict=True))
        variance = variance * scaling.target_spread.square()
        return cls(mixtures, scaling, _original(mean, scaling), variance.cpu().numpy())

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return log p(y) of every observation."""
        parts = [mixture.log_density(targets) for mixture, targets in self._chunks(y)]
        return (torch.cat(parts) - self.scaling.target_spread.log()).cpu().numpy()

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Return the ends of the central intervals with a nominal coverage."""
        outside = 0.5 * (1 - coverage)
        ends = [
            (mixture.quantile(outside), mixture.quantile(1 - outside))
            for mixture in self.mixtures()
        ]
        low, high = (torch.cat(parts) for parts in zip(*ends, strict=True))
        return _original(low, self.scaling), _original(high, self.scaling)

    def crps(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """Return the continuous ranked probability score of every observation."""
        parts = [mixture.crps(targets) for mixture, targets in self._chunks(y)]
        return (torch.cat(parts) * self.scaling.target_spread).cpu().numpy()

    def _chunks(
        self, y: Float64[np.ndarray, " M"]
    ) -> Iterator[tuple[GaussianMixture, Float64[Tensor, " m"]]]:
        """Yield the mixtures of each chunk of rows, and their standardised targets."""
        targets = torch.as_tensor(y, device=self.scaling.target_mean.device)
        targets = self.scaling.targets(targets[:, None])[:, 0]
        start = 0
        for mixture in self.mixtures():
            stop = start + len(mixture.means)
            yield mixture, targets[start:stop]
            start = stop


def _original(values: Float64[Tensor, " M"], scaling: Scaling) -> Float64[np.ndarray, " M"]:
    """Return standardised targets in their original units."""
    return scaling.original_targets(values[:, None])[:, 0].cpu().numpy()
