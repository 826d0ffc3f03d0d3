"""Small data sets, methods and warps for the tests of peers."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from builders.crps import Array
from sswim_lab.bench.methods import EXTRAS, METHODS
from sswim_lab.peers.bayesian_warped_gp import BWGP, FittedBayesianWarpedGP, WarpPrior
from sswim_lab.peers.gpytorch_peers import DKL, DSDGP, SGPR, SVGP, ExactGP, WellTrainedGP
from sswim_lab.peers.protocol import Method, Predictive
from sswim_lab.peers.published_sswim import PublishedSSWIM
from sswim_lab.peers.warped_gp import MLWGP
from torch import Tensor

SMALL_SSWIM = PublishedSSWIM(1, n_components=16, n_pseudo=12, warp_spread=1.0, steps=5)
QUICK_BWGP = BWGP(n_points=20, start_iterations=5, iterations=60)
QUICK_MLWGP = MLWGP(3, start_iterations=5, iterations=60)
SMALL_GPYTORCH: dict[str, Method] = {
    "exact-gp": ExactGP(),
    "exact-gp-well-trained": WellTrainedGP(iterations=40),
    "sgpr": SGPR(n_inducing=30, steps=40),
    "svgp": SVGP(n_inducing=30, epochs=40, batch=50),
    "dkl": DKL(widths=(20, 2), grid_size=20, steps=60, learning_rate=0.05),
    "dsdgp": DSDGP(2, n_inducing=20, n_samples=6, epochs=60, batch=50, learning_rate=0.05),
}


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


def skip_without_libraries(name: str) -> None:
    """Skip a test of a method whose libraries are in an extra that is not always installed."""
    for library in METHODS[name].libraries:
        if library in EXTRAS:
            pytest.importorskip(library, reason=f"needs the extra {EXTRAS[library]}")


def seeded_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def seeded_normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded_generator(seed), dtype=torch.float64)


def predicted(method: Method, seed: int = 0, n: int = 150) -> Predictive:
    """Fit a method to some rows and predict forty others."""
    return method.fit(*rows(n), seed, "cpu").predict(rows(40, seed=1)[0])


@functools.cache
def fitted_bwgp() -> FittedBayesianWarpedGP:
    """A Bayesian warped GP of skewed rows, fitted once."""
    return QUICK_BWGP.fit(*skewed_rows(), 0, "cpu")
