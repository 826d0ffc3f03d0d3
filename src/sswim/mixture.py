"""Predictions of several members, combined as a mixture."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.prediction import Prediction
from sswim.record import Record

_BISECTIONS = 60
"""Halvings that take a quantile's bracket below the rounding of float64."""


@dataclass(frozen=True)
class Mixture(Record):
    """The members' Gaussian predictions with equal weights; a Gaussian if there is one member."""

    members: tuple[Prediction, ...]

    @property
    def mean(self) -> Float[Tensor, "N T"]:
        """The mean of the members' means."""
        return self._means().mean(0)

    @property
    def latent_variance(self) -> Float[Tensor, "N T"]:
        """Of the function: the members' variances, and how much their means disagree."""
        variances = torch.stack([member.latent_variance for member in self.members])
        return variances.mean(0) + self._means().var(0, correction=0)

    @property
    def observation_variance(self) -> Float[Tensor, "N T"]:
        """Of a new observation, likewise."""
        variances = torch.stack([member.observation_variance for member in self.members])
        return variances.mean(0) + self._means().var(0, correction=0)

    def log_density(self, targets: Float[Tensor, "N T"]) -> Float[Tensor, "N T"]:
        """log p(y) of an observation under the mixture, exactly."""
        densities = torch.stack([member.log_density(targets) for member in self.members])
        return densities.logsumexp(0) - math.log(len(self.members))

    def quantile(self, probability: float) -> Float[Tensor, "N T"]:
        """The value that an observation stays below with a probability.

        A Gaussian's in closed form; a mixture's by bisection between those of its members.
        """
        level = torch.special.ndtri(torch.tensor(probability, dtype=torch.float64)).item()
        spreads = torch.stack([member.observation_variance for member in self.members]).sqrt()
        means = self._means()
        candidates = means + level * spreads
        low, high = candidates.amin(0), candidates.amax(0)
        if len(self.members) == 1:
            return low
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            below = torch.special.ndtr((middle - means) / spreads).mean(0) < probability
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return 0.5 * (low + high)

    def _means(self) -> Float[Tensor, "members N T"]:
        return torch.stack([member.mean for member in self.members])
