"""Sparse Gaussian process regression by inducing points, by GPyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gpytorch
from torch import Tensor

from sswim.lab.peers.exact_gp import CHOLESKY_TRIES, ExactProcess, fit_evidence, matern
from sswim.lab.peers.gpytorch_training import FittedProcess, Standardised


def sparse_process(x: Tensor, y: Tensor, n_inducing: int) -> ExactProcess:
    """A process whose inducing points begin as the first rows, and are learnt."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    # A copy: the optimiser moves the inducing points in place, and the rows must stay.
    inducing = x[:n_inducing].clone()
    kernel = gpytorch.kernels.InducingPointKernel(matern(x.shape[1]), inducing, likelihood)
    return ExactProcess(x, y, kernel, likelihood).to(x)


def fit_sgpr(
    rows: Standardised, n_inducing: int, steps: int, learning_rate: float
) -> FittedProcess:
    """Maximise the collapsed bound of the evidence by Adam."""
    model = sparse_process(rows.x, rows.y, n_inducing)
    return fit_evidence(model, rows, steps, learning_rate, _by_small_factors)


@contextmanager
def _by_small_factors() -> Iterator[None]:
    """The algebra of low rank, which without fast computations would be that of N × N matrices."""
    with gpytorch.settings.cholesky_max_tries(CHOLESKY_TRIES):
        yield
