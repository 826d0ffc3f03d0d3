"""What is said of rows whose target is not known."""

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
    latent_variance: Float[Tensor, "*B N T"]
    """Of the function itself."""
    observation_variance: Float[Tensor, "*B N T"]
    """Of a new observation: the latent variance and the noise."""

    def log_density(self, targets: Float[Tensor, "*#B N T"]) -> Float[Tensor, "*B N T"]:
        """log p(y) of an observation under the prediction."""
        squared = (targets - self.mean).square() / self.observation_variance
        return -0.5 * (squared + self.observation_variance.log() + math.log(2 * math.pi))


@dataclass(frozen=True)
class Mean(Record):
    """A prediction without its variances."""

    mean: Float[Tensor, "N T"]
