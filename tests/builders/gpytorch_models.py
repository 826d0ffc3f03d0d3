"""GPyTorch models and kernels for tests; import it after checking that GPyTorch is installed."""

from __future__ import annotations

from typing import Any

import gpytorch
import torch
from torch import Tensor

from sswim.integrations.gpytorch import SSWIMKernel


class ExactGP(gpytorch.models.ExactGP):  # type: ignore[misc]
    """A GP with a given kernel, Gaussian noise and a constant mean."""

    def __init__(self, x: Tensor, y: Tensor, kernel: gpytorch.kernels.Kernel) -> None:
        super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = kernel
        self.to(x.dtype)

    def forward(self, x: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def objective(self) -> Tensor:
        """Return the log marginal likelihood of the training rows and the priors, per row."""
        likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)
        return likelihood(self(*self.train_inputs), self.train_targets)


def small_kernel(num_dims: int | None = 2, **settings: Any) -> SSWIMKernel:
    return SSWIMKernel(num_dims, **{"n_features": 16, "n_pseudo": 5, **settings})


@torch.no_grad()
def bent_kernel(x: Tensor, **settings: Any) -> SSWIMKernel:
    """A kernel in float64 that has seen inputs; its warps, and so its members, are not alike."""
    kernel = small_kernel(x.shape[-1], **settings).double()
    kernel(x).to_dense()
    generator = torch.Generator().manual_seed(5)
    for parameter in kernel.parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.add_(0.3 * noise)
    return kernel
