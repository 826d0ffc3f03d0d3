"""An exact Gaussian process with a Matérn-3/2 kernel, by GPyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import gpytorch
from torch import Tensor

from sswim.lab.peers.gpytorch_training import FittedProcess, Standardised, maximise

CHOLESKY_TRIES = 6
"""With ten times as much jitter each time."""


class ExactProcess(gpytorch.models.ExactGP):  # type: ignore[misc]
    """A constant mean, and a kernel; every evaluation sees all rows."""

    def __init__(self, x: Tensor, y: Tensor, kernel: Any, likelihood: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernel

    def forward(self, x: Tensor) -> Any:
        """The prior of the function at rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def matern(n_inputs: int, **settings: Any) -> Any:
    """A scaled Matérn-3/2 kernel with one length-scale for each input."""
    kernel = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=n_inputs, **settings)
    return gpytorch.kernels.ScaleKernel(kernel, **settings)


def fit_exact_gp(rows: Standardised, steps: int, learning_rate: float) -> FittedProcess:
    """Maximise the evidence by Adam."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = ExactProcess(rows.x, rows.y, matern(rows.x.shape[1]), likelihood).to(rows.x)
    return fit_evidence(model, rows, steps, learning_rate, by_cholesky)


def fit_evidence(
    model: ExactProcess,
    rows: Standardised,
    steps: int,
    learning_rate: float,
    context: Callable[[], AbstractContextManager[None]],
) -> FittedProcess:
    """Maximise the evidence of all rows by Adam."""
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    with context():
        maximise(model, evidence, rows.every_step(steps), learning_rate)
    return FittedProcess(model, rows, context)


@contextmanager
def by_cholesky() -> Iterator[None]:
    """Cholesky factors at every size."""
    with (
        # By default larger matrices are solved by iterations that start from random vectors.
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.max_cholesky_size(10**6),
        gpytorch.settings.cholesky_max_tries(CHOLESKY_TRIES),
    ):
        yield
