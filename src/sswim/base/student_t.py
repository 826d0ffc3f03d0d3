"""Student's t distribution with any number of degrees of freedom, for every element."""

from __future__ import annotations

import math

import numpy as np
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


def cdf(values: Float64[Tensor, "*#N"], degrees: Float64[Tensor, "*#N"]) -> Float64[Tensor, "*N"]:
    """Return the probability of at most each value."""
    found = special.stdtr(degrees.cpu().numpy(), values.cpu().numpy())
    return torch.as_tensor(found, dtype=torch.float64).to(values.device)


def from_normal(
    values: Float64[Tensor, " Q"], degrees: Float64[Tensor, "*N"]
) -> Float64[Tensor, " Q *N"]:
    """Return the quantiles of t whose probabilities are those of standard normal values.

    Rows have few different numbers of degrees, and each is looked up once.
    """
    distinct, group = degrees.unique(return_inverse=True)
    normal = values.cpu().numpy()[:, None]
    # The lower tail, because probabilities near one are rounded.
    tail = special.stdtrit(distinct.cpu().numpy(), special.ndtr(-np.abs(normal)))
    found = torch.as_tensor(np.copysign(tail, normal), dtype=torch.float64)
    return found.to(degrees.device)[:, group]
