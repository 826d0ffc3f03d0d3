"""Student's t distribution with any number of degrees of freedom, for every element."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from scipy import special
from torch import Tensor


def log_density(
    squared: Float64[Tensor, "*#N"], degrees: Float64[Tensor, "*#N"]
) -> Float64[Tensor, "*N"]:
    """Return log p(t), given t²; differentiable in both."""
    half = 0.5 * degrees
    constant = torch.lgamma(half + 0.5) - torch.lgamma(half) - 0.5 * (math.pi * degrees).log()
    return constant - (half + 0.5) * (squared / degrees).log1p()


def cdf(values: Float64[Tensor, "*N"], degrees: Float64[Tensor, "*N"]) -> Float64[Tensor, "*N"]:
    """Return the probability of at most each value."""
    found = special.stdtr(degrees.cpu().numpy(), values.cpu().numpy())
    return torch.as_tensor(found, dtype=torch.float64).to(values.device)


def from_normal(value: float, degrees: Float64[Tensor, "*N"]) -> Float64[Tensor, "*N"]:
    """Return the quantile of t whose probability is that of a standard normal value.

    Rows have few different numbers of degrees, and each is looked up once.
    """
    distinct, group = degrees.unique(return_inverse=True)
    # The lower tail, because probabilities near one are rounded.
    tail = special.stdtrit(distinct.cpu().numpy(), special.ndtr(-abs(value)))
    found = torch.as_tensor(-math.copysign(1.0, value) * tail, dtype=torch.float64)
    return found.to(degrees.device)[group]
