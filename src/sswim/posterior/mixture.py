"""Mixtures: the predictive densities of several members, combined with weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.base.root_finding import bisect
from sswim.posterior.density import Density


@dataclass(frozen=True)
class Mixture(Record):
    """A weighted mixture of the members' predictive densities, for every row and target."""

    members: tuple[Density, ...]
    """Predictive density of each member."""
    weights: Float64[Tensor, " members"]
    """Weights of the members; they add up to one."""

    @property
    def mean(self) -> Float64[Tensor, "N T"]:
        """Mean of an observation: the weighted mean of the members' means."""
        return self._average(self._means())

    @property
    def observation_variance(self) -> Float64[Tensor, "N T"]:
        """Variance of a new observation: within the members, and between their means."""
        within = torch.stack([member.observation_variance for member in self.members])
        between = (self._means() - self.mean).square()
        return self._average(within + between)

    def without_noise(self) -> Mixture:
        """Return the mixture of the members' densities of the function itself."""
        return Mixture(tuple(member.without_noise() for member in self.members), self.weights)

    @property
    def noise_variance(self) -> Float64[Tensor, "N T"]:
        """Variance of the noise alone: the weighted mean of the members' noise variances."""
        return self._average(torch.stack([member.noise_variance for member in self.members]))

    def log_density(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return log p(y) of observations y."""
        densities = torch.stack([member.log_density(targets) for member in self.members])
        return (densities + self.weights.log()[:, None, None]).logsumexp(0)

    def cdf(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the probability that an observation is at most y."""
        return self._average(torch.stack([member.cdf(targets) for member in self.members]))

    def quantile(self, probability: float) -> Float64[Tensor, "N T"]:
        """Return the value that an observation stays below with a probability.

        A single member has it in closed form; for several it is found by bisection between the
        quantiles of the members.
        """
        candidates = torch.stack([member.quantile(probability) for member in self.members])
        low, high = candidates.amin(0), candidates.amax(0)
        if len(self.members) == 1:
            return low
        return bisect(lambda targets: self.cdf(targets) < probability, low, high)

    def _average(self, values: Float64[Tensor, "members N T"]) -> Float64[Tensor, "N T"]:
        return torch.einsum("m,mnt->nt", self.weights, values)

    def _means(self) -> Float64[Tensor, "members N T"]:
        return torch.stack([member.mean for member in self.members])


def equal_weights(n_members: int) -> Float64[Tensor, " members"]:
    """Return equal weights for members, which add up to one."""
    return torch.full((n_members,), 1 / n_members, dtype=torch.float64)
