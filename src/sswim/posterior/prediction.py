"""Gaussian and Student-t predictions of targets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base import student_t
from sswim.base.record import Record


@dataclass(frozen=True)
class Prediction(Record):
    """Predictions of every row and target: Gaussian, or Student-t where there are degrees."""

    mean: Float[Tensor, "*B N T"]
    """Mean of the function, and of a new observation."""
    latent_variance: Float[Tensor, "*B N T"]
    """Variance of the function itself."""
    observation_variance: Float[Tensor, "*B N T"]
    """Variance of a new observation: the latent variance plus that of the noise."""
    degrees: Float64[Tensor, "*B N T"] | None = None
    """Degrees of freedom, more than two, of function and observation; None for Gaussians."""

    def log_density(self, targets: Float[Tensor, "*#B N T"]) -> Float[Tensor, "*B N T"]:
        """Return log p(y) of observations y."""
        residual = targets - self.mean
        if self.degrees is None:
            squared = residual.square() / self.observation_variance
            return -0.5 * (squared + self.observation_variance.log() + math.log(2 * math.pi))
        scale = self.observation_variance * self.scale_ratio().square()
        return student_t.log_density(residual.square() / scale, self.degrees) - 0.5 * scale.log()

    def cdf(self, targets: Float64[Tensor, "*#B N T"]) -> Float64[Tensor, "*B N T"]:
        """Return the probability that an observation is at most y."""
        return self.tail(targets, 1.0)

    def tail(
        self, targets: Float64[Tensor, "*#B N T"], sign: float | Float64[Tensor, "*#B 1 1"]
    ) -> Float64[Tensor, "*B N T"]:
        """Return the probability of at most y, or of more than y where the sign is −1.

        Both are accurate where they are small.
        """
        deviation = (targets - self.mean) / self.observation_variance.sqrt() * sign
        if self.degrees is None:
            # torch.special.ndtr is not accurate where it is small.
            return 0.5 * torch.erfc(-math.sqrt(0.5) * deviation)
        return student_t.cdf(deviation / self.scale_ratio(), self.degrees)

    def stretch(self, normal: Float64[Tensor, " Q"]) -> Float64[Tensor, "Q *B N T"]:
        """Return the values of (z − mean)/(standard deviation) that are as probable as normal ones.

        For Gaussians they are the same; the tails of a Student-t are stretched.
        """
        if self.degrees is None:
            return normal.reshape(-1, *(1,) * self.mean.ndim)
        return self.scale_ratio() * student_t.from_normal(normal, self.degrees)

    def scale_ratio(self) -> Float64[Tensor, "*B N T"]:
        """Return √((n − 2)/n), the scale of a Student-t over its standard deviation."""
        assert self.degrees is not None
        return ((self.degrees - 2) / self.degrees).sqrt()


@dataclass(frozen=True)
class MeanPrediction(Record):
    """A prediction without variances."""

    mean: Float[Tensor, "N T"]
    """Mean of the function."""


@dataclass(frozen=True)
class JointPrediction(Record):
    """Joint predictions of z = T(y) at sets of q points, by their first two moments."""

    mean: Float64[Tensor, "B q T"]
    """Mean of the function."""
    covariance: Float64[Tensor, "B T q q"]
    """Covariance of the function at the points of a set, for every target."""
    noise: Float64[Tensor, "B q T"]
    """Variance of the noise of an observation."""
