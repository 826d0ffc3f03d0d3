"""Predictions of several members, combined as a mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.density import Density
from sswim.record import Record

_BISECTIONS = 60
"""Halvings that take a quantile's bracket below the rounding of float64."""


@dataclass(frozen=True)
class Mixture(Record):
    """The members' densities with equal weights; that of the member if there is one."""

    members: tuple[Density, ...]

    @property
    def mean(self) -> Float64[Tensor, "N T"]:
        """The mean of the members' means."""
        return self._means().mean(0)

    @property
    def observation_variance(self) -> Float64[Tensor, "N T"]:
        """Of a new observation: the members' variances, and how much their means disagree."""
        variances = torch.stack([member.observation_variance for member in self.members])
        return variances.mean(0) + self._means().var(0, correction=0)

    def function(self) -> Mixture:
        """The mixture for the function itself, without the noise."""
        return Mixture(tuple(member.function() for member in self.members))

    @property
    def latent_variance(self) -> Float64[Tensor, "N T"]:
        """Of the function."""
        return self.function().observation_variance

    @property
    def noise_variance(self) -> Float64[Tensor, "N T"]:
        """Of the noise alone: the mean of the members'."""
        return torch.stack([member.noise_variance for member in self.members]).mean(0)

    def log_density(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """log p(y) of an observation under the mixture, exactly."""
        densities = torch.stack([member.log_density(targets) for member in self.members])
        return densities.logsumexp(0) - math.log(len(self.members))

    def cumulative(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """The probability that an observation is at most y."""
        return torch.stack([member.cumulative(targets) for member in self.members]).mean(0)

    def quantile(self, probability: float) -> Float64[Tensor, "N T"]:
        """The value that an observation stays below with a probability.

        A member's in closed form; a mixture's by bisection between those of its members.
        """
        candidates = torch.stack([member.quantile(probability) for member in self.members])
        low, high = candidates.amin(0), candidates.amax(0)
        if len(self.members) == 1:
            return low
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = self.cumulative(middle) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return 0.5 * (low + high)

    def _means(self) -> Float64[Tensor, "members N T"]:
        return torch.stack([member.mean for member in self.members])
