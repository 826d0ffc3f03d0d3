"""Sparse Gaussian processes of GPyTorch, as its documentation builds them.

Imported where they are needed only, because GPyTorch need not be installed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it warns under a new PyTorch
    import gpytorch

BATCH = 1024
"""Rows of a mini-batch of stochastic training."""
LEARNING_RATE = 0.01
PREDICTED_ROWS = 4096
"""Test rows at a time, as many as the predictions of this package."""


def matern(n_inputs: int) -> Any:
    """A scaled Matérn-3/2 kernel with one length-scale for each input."""
    kernel = gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=n_inputs)
    return gpytorch.kernels.ScaleKernel(kernel)


class SGPR(gpytorch.models.ExactGP):  # type: ignore[misc]
    """Sparse Gaussian process regression by inducing points, with all rows in every step."""

    def __init__(self, x: Tensor, y: Tensor, inducing: Tensor, likelihood: Any) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.InducingPointKernel(
            matern(x.shape[1]), inducing_points=inducing, likelihood=likelihood
        )

    def forward(self, x: Tensor) -> Any:
        """The prior of the function at rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class _Variational(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """The process of stochastic variational inference."""

    def __init__(self, inducing: Tensor) -> None:
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, inducing, distribution, learn_inducing_locations=True
            )
        )
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = matern(inducing.shape[1])

    def forward(self, x: Tensor) -> Any:
        """The prior of the function at rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def sgpr_step(x: Tensor, y: Tensor, n_inducing: int) -> Callable[[], None]:
    """One step of Adam on the evidence, as a function; the inducing points are learnt too."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = SGPR(x, y, x[:n_inducing].clone(), likelihood).to(x)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimiser = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    model.train()

    def step() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of added jitter
            optimiser.zero_grad()
            loss = -evidence(model(x), y)
            loss.backward()
            optimiser.step()

    return step


@dataclass(frozen=True)
class SVGP:
    """Stochastic variational inference by mini-batches, between its epochs."""

    model: _Variational
    likelihood: Any
    optimiser: torch.optim.Adam
    generator: torch.Generator
    """On the CPU; of the order of rows."""

    @classmethod
    def start(cls, x: Tensor, n_inducing: int, seed: int = 0) -> SVGP:
        """Before training: the inducing points are rows, chosen at random."""
        generator = torch.Generator().manual_seed(seed)
        chosen = torch.randperm(len(x), generator=generator)[:n_inducing].to(x.device)
        model = _Variational(x[chosen].clone()).to(x)
        likelihood = gpytorch.likelihoods.GaussianLikelihood().to(x)
        parameters = [*model.parameters(), *likelihood.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE)
        return cls(model, likelihood, optimiser, generator)

    def epoch(self, x: Tensor, y: Tensor) -> None:
        """See every row once."""
        self.model.train()
        bound = gpytorch.mlls.VariationalELBO(self.likelihood, self.model, num_data=len(y))
        order = torch.randperm(len(y), generator=self.generator).to(x.device)
        for rows in order.split(BATCH):
            self.optimiser.zero_grad()
            loss = -bound(self.model(x[rows]), y[rows])
            loss.backward()
            self.optimiser.step()

    @torch.no_grad()
    def predict(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and variances of new observations, on the CPU."""
        self.model.eval()
        device = next(self.model.parameters()).device
        means, variances = [], []
        for rows in x.split(PREDICTED_ROWS):
            prediction = self.likelihood(self.model(rows.to(device)))
            means.append(prediction.mean.cpu())
            variances.append(prediction.variance.cpu())
        return torch.cat(means), torch.cat(variances)
