"""A GP by stochastic variational inference, by GPyTorch."""

from __future__ import annotations

from typing import Any

import gpytorch
from torch import Tensor

from sswim_lab.peers.exact_gp import matern
from sswim_lab.peers.gpytorch_training import FittedGPyTorchModel, maximise, mini_batches
from sswim_lab.peers.standardised_rows import StandardisedRows


class VariationalGPModel(gpytorch.models.ApproximateGP):  # type: ignore[misc]
    """A constant mean and a Matérn-3/2 kernel; the inducing points are learnt."""

    def __init__(self, inducing: Tensor) -> None:
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, inducing, distribution, learn_inducing_locations=True
            )
        )
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = matern(inducing.shape[1])
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x: Tensor) -> Any:
        """Return the prior of the function at rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fit_svgp(
    rows: StandardisedRows,
    seed: int,
    n_inducing: int,
    epochs: int,
    batch: int,
    learning_rate: float,
) -> FittedGPyTorchModel:
    """Maximise the bound of the evidence by Adam on mini-batches."""
    model = VariationalGPModel(rows.x[:n_inducing].clone()).to(rows.x)
    bound = gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=len(rows.y))
    maximise(model, bound, mini_batches(rows, batch, epochs, seed), learning_rate)
    return FittedGPyTorchModel(model, rows, seed)
