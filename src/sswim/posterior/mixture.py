"""Predictions of several members, combined as a mixture."""

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
    """The members' densities, weighted; that of the member if there is one."""

    members: tuple[Density, ...]
    weights: Float64[Tensor, " members"]
    """Adding up to one."""

    @property
    def mean(self) -> Float64[Tensor, "N T"]:
        """The mean of the members' means."""
        return self._average(self._means())

    @property
    def observation_variance(self) -> Float64[Tensor, "N T"]:
        """Of a new observation: the members' variances, and how much their means disagree."""
        variances = torch.stack([member.observation_variance for member in self.members])
        between = (self._means() - self.mean).square()
        return self._average(variances + between)

    def function(self) -> Mixture:
        """The mixture for the function itself, without the noise."""
        return Mixture(tuple(member.function() for member in self.members), self.weights)

    @property
    def latent_variance(self) -> Float64[Tensor, "N T"]:
        """Of the function."""
        return self.function().observation_variance

    @property
    def noise_variance(self) -> Float64[Tensor, "N T"]:
        """Of the noise alone: the mean of the members'."""
        return self._average(torch.stack([member.noise_variance for member in self.members]))

    def log_density(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """log p(y) of an observation under the mixture, exactly."""
        densities = torch.stack([member.log_density(targets) for member in self.members])
        return (densities + self.weights.log()[:, None, None]).logsumexp(0)

    def cdf(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """The probability that an observation is at most y."""
        return self._average(torch.stack([member.cdf(targets) for member in self.members]))

    def quantile(self, probability: float) -> Float64[Tensor, "N T"]:
        """The value that an observation stays below with a probability.

        A member's in closed form; a mixture's by bisection between those of its members.
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
    """Each member as good as another."""
    return torch.full((n_members,), 1 / n_members, dtype=torch.float64)
