"""An exact Gaussian process with a Matérn-3/2 kernel, by GPyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gpytorch
import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.baselines.protocol import Gaussian

BATCH = 1000
"""Test rows at a time, whose joint covariance is held in memory."""


class _Model(gpytorch.models.ExactGP):  # type: ignore[misc]
    """A constant mean and a scaled kernel with one length-scale for each input."""

    def __init__(self, x: Tensor, y: Tensor, likelihood: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        kernel = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=x.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


@dataclass(frozen=True)
class FittedGP:
    """A trained process, and the scales of its inputs and target."""

    model: _Model
    centre: Float64[np.ndarray, " D"]
    scale: Float64[np.ndarray, " D"]
    target_centre: float
    target_scale: float
    device: str

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """The densities of the targets of rows."""
        inputs = torch.as_tensor((x - self.centre) / self.scale, device=self.device)
        means, variances = [], []
        with _exact(), torch.no_grad():
            for rows in inputs.split(BATCH):
                prediction = self.model.likelihood(self.model(rows))
                means.append(prediction.mean)
                variances.append(prediction.variance)
        mean, variance = torch.cat(means).cpu().numpy(), torch.cat(variances).cpu().numpy()
        return Gaussian(
            self.target_centre + self.target_scale * mean, self.target_scale**2 * variance
        )


def fit_exact_gp(
    x: Float64[np.ndarray, "N D"],
    y: Float64[np.ndarray, " N"],
    steps: int,
    learning_rate: float,
    device: str,
) -> FittedGP:
    """Maximise the evidence by Adam."""
    centre, scale = x.mean(axis=0), x.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    target_centre, target_scale = float(y.mean()), float(y.std()) or 1.0
    inputs = torch.as_tensor((x - centre) / scale, device=device)
    targets = torch.as_tensor((y - target_centre) / target_scale, device=device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = _Model(inputs, targets, likelihood).to(device=device, dtype=torch.float64)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    model.train()
    with _exact():
        for _ in range(steps):
            optimiser.zero_grad()
            loss = -evidence(model(inputs), targets)
            loss.backward()
            optimiser.step()
    model.eval()
    return FittedGP(model, centre, scale, target_centre, target_scale, device)


@contextmanager
def _exact() -> Iterator[None]:
    """Cholesky factors at every size, and no warnings of added jitter."""
    with (
        warnings.catch_warnings(),
        # By default larger matrices are solved by iterations that start from random vectors.
        gpytorch.settings.fast_computations(False, False, False),
        gpytorch.settings.max_cholesky_size(10**6),
    ):
        warnings.simplefilter("ignore")
        yield
