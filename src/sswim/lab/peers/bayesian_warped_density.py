"""Predictive densities of the Bayesian warped process: p(y) = ∫ N(y; m(f), v(f) + σ²) q(f) df.

m and v are the mean and variance of the warp at f. By the trapezoid rule in ξ, f = μ + dξ, the
integral is a mixture of Gaussians, of which density, moments and quantiles are one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.base.root_finding import safeguarded_newton
from sswim.lab.peers.bayesian_warp import WarpPosterior
from sswim.rows.scaling import Scaling

_REACH = 8.0
"""Deviations of q(f) on either side; 1e-15 of it lies beyond."""
_NODES = (257, 8193)
"""The fewest and the most."""
_VALUES = 2**14
"""Nodes of all rows at a time: few enough for a processor's cache."""


@dataclass(frozen=True)
class NormalMixture(Record):
    """Σ_q w_q N(mean_q, variance_q), one for every row."""

    weights: Float64[Tensor, " Q"]
    means: Float64[Tensor, "M Q"]
    variances: Float64[Tensor, "M Q"]

    def moments(self) -> tuple[Float64[Tensor, " M"], Float64[Tensor, " M"]]:
        """Mean and variance."""
        mean = self.means @ self.weights
        between = (self.means - mean[:, None]).square()
        return mean, (self.variances + between) @ self.weights

    def log_density(self, values: Float64[Tensor, " M"]) -> Float64[Tensor, " M"]:
        """Of one value for every row."""
        squared = (values[:, None] - self.means).square() / self.variances
        logs = -0.5 * (squared + self.variances.log() + math.log(2 * math.pi))
        return (self.weights.log() + logs).logsumexp(1)

    def cdf(self, values: Float64[Tensor, " M"]) -> Float64[Tensor, " M"]:
        """The probability of at most a value."""
        deviations = (values[:, None] - self.means) / self.variances.sqrt()
        return torch.special.ndtr(deviations) @ self.weights

    def quantile(self, probability: float) -> Float64[Tensor, " M"]:
        """Find the quantile by Newton's steps within a bracket."""
        reach = 10 * self.variances.sqrt()
        low, high = (self.means - reach).amin(1), (self.means + reach).amax(1)
        tolerance = 1e-12 * (high - low)

        def error_and_step(values: Tensor) -> tuple[Tensor, Tensor]:
            error = self.cdf(values) - probability
            return error, error * (-self.log_density(values)).exp()

        return safeguarded_newton(error_and_step, self.moments()[0], low, high, lambda _: tolerance)


@dataclass(frozen=True)
class Argument(Record):
    """The warp, and q(f) = N(μ, d²) at every row."""

    warp: WarpPosterior
    mean: Float64[Tensor, " M"]
    """μ"""
    deviation: Float64[Tensor, " M"]
    """d"""

    def n_nodes(self) -> int:
        """As many as resolve the steepest part of the warp.

        The integrand's factors have the deviations 1 and √(v + σ²)/(d|m'|) in ξ. Nodes that are no
        further apart than that of their product leave errors of about exp(−2π²) = 3e-9.
        """
        reach = _REACH * self.deviation
        low, high = (self.mean - reach).amin().item(), (self.mean + reach).amax().item()
        values = torch.linspace(low, high, _NODES[1], dtype=torch.float64).to(self.mean)
        mean, variance = self.warp.predict(values)
        slope = mean.diff().abs() / values.diff()
        steepest = (slope / (variance[1:] + self.warp.prior.noise_variance).sqrt()).max()
        narrow = torch.hypot(steepest * self.deviation.max(), torch.ones_like(steepest))
        return int(min(max(math.ceil(2 * _REACH * narrow.item()), _NODES[0]), _NODES[1]))

    def mixtures(self, n_nodes: int) -> Iterator[NormalMixture]:
        """The densities of standardised targets, some rows at a time."""
        nodes = torch.linspace(-_REACH, _REACH, n_nodes, dtype=torch.float64).to(self.mean)
        weights = (-0.5 * nodes.square()).softmax(0)
        size = max(1, _VALUES // n_nodes)
        for mean, deviation in zip(self.mean.split(size), self.deviation.split(size), strict=True):
            means, variances = self.warp.predict(mean[:, None] + deviation[:, None] * nodes)
            yield NormalMixture(weights, means, variances + self.warp.prior.noise_variance)


@dataclass(frozen=True)
class BayesianWarpedPredictive:
    """Densities of the targets of rows; nothing about them need be Gaussian."""

    argument: Argument
    n_nodes: int
    scaling: Scaling
    mean: Float64[np.ndarray, " M"]
    variance: Float64[np.ndarray, " M"]

    @classmethod
    def of(cls, argument: Argument, scaling: Scaling) -> BayesianWarpedPredictive:
        """With moments by quadrature."""
        n_nodes = argument.n_nodes()
        moments = [mixture.moments() for mixture in argument.mixtures(n_nodes)]
        mean, variance = (torch.cat(parts) for parts in zip(*moments, strict=True))
        variance = variance * scaling.target_spread.square()
        return cls(argument, n_nodes, scaling, _original(mean, scaling), variance.cpu().numpy())

    def log_density(self, y: Float64[np.ndarray, " M"]) -> Float64[np.ndarray, " M"]:
        """log p(y) of each."""
        targets = torch.as_tensor(y, device=self.argument.mean.device)
        targets = self.scaling.targets(targets[:, None])[:, 0]
        parts, start = [], 0
        for mixture in self.argument.mixtures(self.n_nodes):
            stop = start + len(mixture.means)
            parts.append(mixture.log_density(targets[start:stop]))
            start = stop
        return (torch.cat(parts) - self.scaling.target_spread.log()).cpu().numpy()

    def interval(
        self, coverage: float
    ) -> tuple[Float64[np.ndarray, " M"], Float64[np.ndarray, " M"]]:
        """Ends of the central intervals with a nominal coverage."""
        outside = 0.5 * (1 - coverage)
        ends = [
            (mixture.quantile(outside), mixture.quantile(1 - outside))
            for mixture in self.argument.mixtures(self.n_nodes)
        ]
        low, high = (torch.cat(parts) for parts in zip(*ends, strict=True))
        return _original(low, self.scaling), _original(high, self.scaling)


def _original(values: Float64[Tensor, " M"], scaling: Scaling) -> Float64[np.ndarray, " M"]:
    return scaling.original_targets(values[:, None])[:, 0].cpu().numpy()
