"""Gaussian predictions of targets."""

from __future__ import annotations

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from sswim.base.record import Record


@dataclass(frozen=True)
class Prediction(Record):
    """Gaussian predictions, one for every row and target."""

    mean: Float[Tensor, "*B N T"]
    """Mean of the function, and of a new observation."""
    latent_variance: Float[Tensor, "*B N T"]
    """Variance of the function itself."""
    observation_variance: Float[Tensor, "*B N T"]
    """Variance of a new observation: the latent variance plus that of the noise."""

    def log_density(self, targets: Float[Tensor, "*#B N T"]) -> Float[Tensor, "*B N T"]:
        """Return log p(y) of observations y."""
        squared = (targets - self.mean).square() / self.observation_variance
        return -0.5 * (squared + self.observation_variance.log() + math.log(2 * math.pi))


@dataclass(frozen=True)
class MeanPrediction(Record):
    """A prediction without variances."""

    mean: Float[Tensor, "N T"]
    """Mean of the function."""
