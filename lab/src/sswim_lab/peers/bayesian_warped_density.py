"""Predictive densities of the Bayesian warped GP: p(y) = ∫ N(y; m(f), v(f) + σ²) q(f) df.

m and v are the mean and variance of the warp at f. By the trapezoid rule in ξ, f = μ + dξ, the
integral becomes a mixture of Gaussians, which gives the density, the moments and the quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim_lab.peers.bayesian_warp import WarpPosterior
from sswim_lab.peers.mixture import GaussianMixture

_REACH = 8.0
"""Half-width of the integral in standard deviations of q(f); 1e-15 of q(f) lies outside."""
_MIN_NODES, _MAX_NODES = 257, 8193
_CHUNK_NODES = 2**14
"""Number of nodes of a chunk of rows: few enough for a processor's cache."""


@dataclass(frozen=True)
class WarpedMarginals(Record):
    """Gaussian marginals q(f) = N(μ, d²) at rows, and the warp that is applied to them."""

    warp: WarpPosterior
    mean: Float64[Tensor, " M"]
    """μ"""
    deviation: Float64[Tensor, " M"]
    """d"""

    def n_nodes(self) -> int:
        """Return the number of nodes that resolves the steepest part of the warp.

        The integrand's factors have the deviations 1 and √(v + σ²)/(d|m'|) in ξ. Nodes that are no
        further apart than the deviation of their product leave errors of about exp(−2π²) = 3e-9.
        """
        reach = _REACH * self.deviation
        low, high = (self.mean - reach).amin().item(), (self.mean + reach).amax().item()
        values = torch.linspace(low, high, _MAX_NODES, dtype=torch.float64).to(self.mean)
        mean, variance = self.warp.predict(values)
        slope = mean.diff().abs() / values.diff()
        steepest = (slope / (variance[1:] + self.warp.prior.noise_variance).sqrt()).max()
        narrow = torch.hypot(steepest * self.deviation.max(), torch.ones_like(steepest))
        return int(min(max(math.ceil(2 * _REACH * narrow.item()), _MIN_NODES), _MAX_NODES))

    def mixtures(self, n_nodes: int) -> Iterator[GaussianMixture]:
        """Yield the densities of the standardised targets, one chunk of rows after another."""
        nodes = torch.linspace(-_REACH, _REACH, n_nodes, dtype=torch.float64).to(self.mean)
        weights = (-0.5 * nodes.square()).softmax(0)
        size = max(1, _CHUNK_NODES // n_nodes)
        for mean, deviation in zip(self.mean.split(size), self.deviation.split(size), strict=True):
            means, variances = self.warp.predict(mean[:, None] + deviation[:, None] * nodes)
            yield GaussianMixture(weights, means, variances + self.warp.prior.noise_variance)
