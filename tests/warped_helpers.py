"""Skewed rows, and the prior of a warp."""

from __future__ import annotations

import numpy as np
import torch
from bench_helpers import Array
from torch import Tensor

from sswim.baselines.bayesian_warp import WarpPrior


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def warp_prior(amplitude: float = 0.8, length: float = 0.9, noise: float = 0.3) -> WarpPrior:
    log_amplitude, log_length, log_noise, log_width = (
        number(value).log() for value in (amplitude, length, noise, 10.0)
    )
    return WarpPrior(log_amplitude, log_length, log_noise, number(-5.0), log_width)


def skewed(n: int = 60, seed: int = 0) -> tuple[Array, Array]:
    """Log-normal targets, and a column that never varies."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, n)
    y = np.exp(np.sin(2 * x) + 0.4 * random.normal(size=n))
    return np.column_stack([x, np.ones(n)]), y
