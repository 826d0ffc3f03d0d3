"""Deep kernel learning: a network in front of a kernel interpolated on a grid, by GPyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import gpytorch
import torch
from torch import Tensor

from sswim.lab.peers.exact_gp import ExactProcess, matern
from sswim.lab.peers.gpytorch_training import FittedProcess, Standardised, maximise


class DeepKernelProcess(ExactProcess):
    """A process of the features that a network makes of the inputs."""

    def __init__(
        self, x: Tensor, y: Tensor, widths: Sequence[int], grid_size: int, likelihood: Any
    ) -> None:
        kernel = gpytorch.kernels.GridInterpolationKernel(
            matern(widths[-1]), grid_size=grid_size, num_dims=widths[-1]
        )
        super().__init__(x, y, kernel, likelihood)
        self.network = network([x.shape[1], *widths])
        # Features of new rows beyond those of the training rows are moved to the nearest.
        self.bounds = gpytorch.utils.grid.ScaleToBounds(-1.0, 1.0)

    def forward(self, x: Tensor) -> Any:
        """The prior of the function at rows."""
        return super().forward(self.bounds(self.network(x)))


def network(widths: Sequence[int]) -> torch.nn.Sequential:
    """Fully connected layers with rectifiers in between."""
    layers: list[torch.nn.Module] = []
    for before, after in pairwise(widths):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def fit_dkl(
    rows: Standardised, widths: Sequence[int], grid_size: int, steps: int, learning_rate: float
) -> FittedProcess:
    """Maximise the evidence by Adam, the weights of the network included."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = DeepKernelProcess(rows.x, rows.y, widths, grid_size, likelihood).to(rows.x)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    with _on_a_grid():
        maximise(model, evidence, rows.every_step(steps), learning_rate)
    return FittedProcess(model, rows, _on_a_grid)


@contextmanager
def _on_a_grid() -> Iterator[None]:
    """Variances by Lanczos, as GPyTorch's example has them."""
    with (
        gpytorch.settings.fast_pred_var(),
        # The matrices of the grid's axes are small: dense products beat Fourier transforms.
        gpytorch.settings.use_toeplitz(False),
    ):
        yield
