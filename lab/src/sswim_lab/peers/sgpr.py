"""Sparse GP regression by inducing points, by GPyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gpytorch
from torch import Tensor

from sswim_lab.peers.exact_gp import CHOLESKY_TRIES, ExactGPModel, fit_evidence, matern
from sswim_lab.peers.gpytorch_training import FittedGPyTorchModel
from sswim_lab.peers.standardised_rows import StandardisedRows


def sparse_gp_model(x: Tensor, y: Tensor, n_inducing: int) -> ExactGPModel:
    """Return a GP whose inducing points start at the first rows, and are learnt."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    # A copy: the optimiser moves the inducing points in place, and the rows must stay.
    inducing = x[:n_inducing].clone()
    kernel = gpytorch.kernels.InducingPointKernel(matern(x.shape[1]), inducing, likelihood)
    return ExactGPModel(x, y, kernel, likelihood).to(x)


def fit_sgpr(
    rows: StandardisedRows, seed: int, n_inducing: int, steps: int, learning_rate: float
) -> FittedGPyTorchModel:
    """Maximise the collapsed bound of the evidence by Adam."""
    model = sparse_gp_model(rows.x, rows.y, n_inducing)
    return fit_evidence(model, rows, seed, steps, learning_rate, _low_rank_algebra)


@contextmanager
def _low_rank_algebra() -> Iterator[None]:
    """Keep GPyTorch's fast computations: without them it would form N × N matrices."""
    with gpytorch.settings.cholesky_max_tries(CHOLESKY_TRIES):
        yield
