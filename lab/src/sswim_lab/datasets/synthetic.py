"""Synthetic functions whose smoothness changes across the input space."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor


def nonstationary_signal(x: Float64[Tensor, "*N"]) -> Float64[Tensor, "*N"]:
    """Return a 1-D signal on [0, 3): abrupt steps, then a slow wave, then a chirp.

    It resembles the signal with which the paper explains its warps.
    """
    steps = torch.where((3 * x).floor() % 2 == 0, -1.0, 1.0)
    wave = (2 * math.pi * (x - 1)).sin()
    chirp = (2 * math.pi * (x - 2) * (1 + 5 * (x - 2))).sin()
    return torch.where(x < 1, steps, torch.where(x < 2, wave, chirp))


def gramacy_surface(x: Float64[Tensor, "*N 2"]) -> Float64[Tensor, "*N"]:
    """Return x₁ exp(−x₁² − x₂²): on [−2, 6]² a hill beside a valley in one corner, else flat.

    It is the example of Gramacy's treed GPs.
    """
    return x[..., 0] * (-x.square().sum(-1)).exp()
