"""Deep kernel learning: a network in front of a kernel interpolated on a grid, by GPyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import gpytorch
import torch
from torch import Tensor

from sswim_lab.peers.exact_gp import ExactGPModel, fit_evidence, matern
from sswim_lab.peers.gpytorch_training import FittedGPyTorchModel
from sswim_lab.peers.standardised_rows import StandardisedRows


class DeepKernelModel(ExactGPModel):
    """A GP of the features that a network computes from the inputs."""

    def __init__(
        self, x: Tensor, y: Tensor, widths: Sequence[int], grid_size: int, likelihood: Any
    ) -> None:
        kernel = gpytorch.kernels.GridInterpolationKernel(
            matern(widths[-1]), grid_size=grid_size, num_dims=widths[-1]
        )
        super().__init__(x, y, kernel, likelihood)
        self.network = network([x.shape[1], *widths])
        # Features of new rows outside the range of the training rows are moved to its ends.
        self.bounds = gpytorch.utils.grid.ScaleToBounds(-1.0, 1.0)

    def forward(self, x: Tensor) -> Any:
        """Return the prior of the function at rows."""
        return super().forward(self.bounds(self.network(x)))


def network(widths: Sequence[int]) -> torch.nn.Sequential:
    """Return fully connected layers with rectifiers in between."""
    layers: list[torch.nn.Module] = []
    for before, after in pairwise(widths):
        layers += [torch.nn.Linear(before, after), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def fit_dkl(
    rows: StandardisedRows,
    seed: int,
    widths: Sequence[int],
    grid_size: int,
    steps: int,
    learning_rate: float,
) -> FittedGPyTorchModel:
    """Maximise the evidence by Adam, the weights of the network included."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = DeepKernelModel(rows.x, rows.y, widths, grid_size, likelihood).to(rows.x)
    return fit_evidence(model, rows, seed, steps, learning_rate, _grid_algebra)


@contextmanager
def _grid_algebra() -> Iterator[None]:
    """Compute variances by Lanczos iterations, as GPyTorch's example does."""
    with (
        gpytorch.settings.fast_pred_var(),
        # The matrices of the grid's axes are small: dense products beat Fourier transforms.
        gpytorch.settings.use_toeplitz(False),
    ):
        yield
