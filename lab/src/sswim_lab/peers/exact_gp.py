"""An exact GP with a Matérn-3/2 kernel, by GPyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import repeat
from typing import Any

import gpytorch
import torch
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from sswim_lab.peers.gpytorch_training import FittedGPyTorchModel, maximise
from sswim_lab.peers.standardised_rows import StandardisedRows

CHOLESKY_TRIES = 6
"""Number of attempts of a factorisation, each with ten times the jitter of the last."""


class ExactGPModel(gpytorch.models.ExactGP):  # type: ignore[misc]
    """A constant mean and a kernel; every evaluation uses all rows."""

    def __init__(self, x: Tensor, y: Tensor, kernel: Any, likelihood: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernel

    def forward(self, x: Tensor) -> Any:
        """Return the prior of the function at rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def matern(n_inputs: int, **settings: Any) -> Any:
    """Return a scaled Matérn-3/2 kernel with one length-scale for each input."""
    kernel = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=n_inputs, **settings)
    return gpytorch.kernels.ScaleKernel(kernel, **settings)


def fit_exact_gp(
    rows: StandardisedRows, seed: int, steps: int, learning_rate: float
) -> FittedGPyTorchModel:
    """Maximise the evidence by Adam."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = ExactGPModel(rows.x, rows.y, matern(rows.x.shape[1]), likelihood).to(rows.x)
    return fit_evidence(model, rows, seed, steps, learning_rate, cholesky_only)


def fit_best_exact_gp(
    rows: StandardisedRows,
    seed: int,
    length_scales: Sequence[float],
    noise: float,
    least_noise: float,
    iterations: int,
) -> FittedGPyTorchModel:
    """Maximise the evidence by L-BFGS from several length-scales, and keep the best model.

    The settings are those of ``WellTrainedGP``.
    """
    n_inputs = rows.x.shape[1]
    best, highest, failure = None, -math.inf, None
    for length_scale in length_scales:
        kernel = matern(n_inputs)
        kernel.base_kernel.lengthscale = length_scale * math.sqrt(n_inputs)
        bound = gpytorch.constraints.GreaterThan(least_noise)
        likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=bound)
        likelihood.noise = noise
        model = ExactGPModel(rows.x, rows.y, kernel, likelihood).to(rows.x)
        try:
            reached = climb(model, rows, iterations)
        except (NanError, NotPSDError) as error:  # a step went too far; the other starts go on
            failure = error
            continue
        if reached > highest:
            best, highest = model, reached
    if best is None:
        raise RuntimeError("Training failed from every start of the length-scales.") from failure
    return FittedGPyTorchModel(best, rows, seed, cholesky_only)


def climb(model: ExactGPModel, rows: StandardisedRows, iterations: int) -> float:
    """Maximise the evidence by L-BFGS, and return it in nats per row."""
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimiser = torch.optim.LBFGS(
        model.parameters(),
        max_iter=iterations,
        tolerance_grad=1e-5,
        tolerance_change=1e-8,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        value: Tensor = -evidence(model(rows.x), rows.y)
        value.backward()
        return value

    model.train()
    with cholesky_only():
        optimiser.step(loss)
        with torch.no_grad():
            reached: float = evidence(model(rows.x), rows.y).item()
    model.eval()
    return reached


def fit_evidence(
    model: ExactGPModel,
    rows: StandardisedRows,
    seed: int,
    steps: int,
    learning_rate: float,
    context: Callable[[], AbstractContextManager[None]],
) -> FittedGPyTorchModel:
    """Maximise the evidence of all rows by Adam, under given settings of GPyTorch."""
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    with context():
        maximise(model, evidence, repeat((rows.x, rows.y), steps), learning_rate)
    return FittedGPyTorchModel(model, rows, seed, context)


@contextmanager
def cholesky_only() -> Iterator[None]:
    """Use Cholesky factors at every size."""
    with (
        # By default larger matrices are solved by iterations that start from random vectors.
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.max_cholesky_size(10**6),
        gpytorch.settings.cholesky_max_tries(CHOLESKY_TRIES),
    ):
        yield
