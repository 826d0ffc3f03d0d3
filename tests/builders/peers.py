"""Small data sets and warps for the tests of peers."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sswim.lab.peers.bayesian_warp import WarpPrior

Array = NDArray[np.float64]


def rows(n: int = 150, seed: int = 0) -> tuple[Array, Array]:
    """Inputs on different scales, one of them constant, and a small noisy target."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, (n, 2))
    y = 1e-4 * (np.sin(2 * x[:, 0]) + x[:, 1] + 0.2 * random.normal(size=n)) + 0.01
    return np.column_stack([x * [1, 1000], np.ones(n)]), y


def skewed_rows(n: int = 60, seed: int = 0) -> tuple[Array, Array]:
    """Two inputs, one of them constant, and log-normal targets."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, n)
    y = np.exp(np.sin(2 * x) + 0.4 * random.normal(size=n))
    return np.column_stack([x, np.ones(n)]), y


def scalar(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def warp_prior(amplitude: float = 0.8, length: float = 0.9, noise: float = 0.3) -> WarpPrior:
    """A prior of warps with a grid from −5 to 5."""
    log_amplitude, log_length, log_noise, log_width = (
        scalar(value).log() for value in (amplitude, length, noise, 10.0)
    )
    return WarpPrior(log_amplitude, log_length, log_noise, scalar(-5.0), log_width)
