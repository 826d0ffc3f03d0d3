"""A deep GP of two layers, by doubly stochastic inference in GPyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from jaxtyping import Float, Float64
from torch import Tensor

from sswim_lab.peers.exact_gp import matern
from sswim_lab.peers.gpytorch_training import maximise, mini_batches, predict_in_chunks, quiet
from sswim_lab.peers.mixture import GaussianMixture, MixturePredictive
from sswim_lab.peers.standardised_rows import StandardisedRows


class Layer(DeepGPLayer):  # type: ignore[misc]
    """GPs of the same inputs, one for each output; None is a single output without an axis."""

    def __init__(self, n_inputs: int, n_outputs: int | None, n_inducing: int, mean: Any) -> None:
        shape = torch.Size([] if n_outputs is None else [n_outputs])
        distribution = gpytorch.variational.CholeskyVariationalDistribution(
            n_inducing, batch_shape=shape
        )
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self,
                torch.randn(*shape, n_inducing, n_inputs),
                distribution,
                learn_inducing_locations=True,
            ),
            n_inputs,
            n_outputs,
        )
        self.mean_module = mean
        self.covar_module = matern(n_inputs, batch_shape=shape)

    def forward(self, x: Tensor) -> Any:
        """Return the prior of the functions at rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class TwoLayers(DeepGP):  # type: ignore[misc]
    """A hidden layer with a linear mean, and a last layer with one output."""

    def __init__(self, n_inputs: int, n_hidden: int, n_inducing: int) -> None:
        super().__init__()
        self.hidden = Layer(n_inputs, n_hidden, n_inducing, gpytorch.means.LinearMean(n_inputs))
        self.last = Layer(n_hidden, None, n_inducing, gpytorch.means.ConstantMean())
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x: Tensor) -> Any:
        """Return the output given samples of the hidden layer."""
        return self.last(self.hidden(x))


@dataclass(frozen=True)
class FittedDeepGP:
    """A trained deep GP."""

    model: TwoLayers
    rows: StandardisedRows
    draws: Float[Tensor, "S 1 H"]
    """Standard normal draws of the hidden layer.

    All rows share them, so that the density of a row does not depend on the rows beside it.
    """

    def predict(self, x: Float64[np.ndarray, "M D"]) -> MixturePredictive:
        """Return the predictive densities at rows, with a Gaussian for each draw."""
        # The hidden layer is asked for one sample, because its moments are the same in all.
        with quiet(), gpytorch.settings.num_likelihood_samples(1), torch.no_grad():
            moments = predict_in_chunks(self._observation, self.rows.inputs(x))
        means, variances = (moment.mT.to(torch.float64) for moment in moments)
        weights = torch.full_like(means[0], 1 / len(self.draws))
        mixture = GaussianMixture(weights, means, variances)
        return MixturePredictive.from_mixtures(lambda: [mixture], self.rows.scaling)

    def _observation(self, x: Float[Tensor, "M D"]) -> tuple[Tensor, Tensor]:
        """Return the standardised mean and variance of observations, for each draw."""
        hidden = self.model.hidden(x)
        samples = hidden.mean[0] + self.draws * hidden.variance[0].sqrt()
        prediction = self.model.likelihood(self.model.last(samples, are_samples=True))
        return prediction.mean, prediction.variance


def fit_deep_gp(
    rows: StandardisedRows,
    seed: int,
    n_hidden: int,
    n_inducing: int,
    n_samples: int,
    epochs: int,
    batch: int,
    learning_rate: float,
) -> FittedDeepGP:
    """Maximise the bound of the evidence by Adam on mini-batches and samples."""
    model = TwoLayers(rows.x.shape[1], n_hidden, n_inducing).to(rows.x)
    bound = gpytorch.mlls.DeepApproximateMLL(
        gpytorch.mlls.VariationalELBO(model.likelihood, model, num_data=len(rows.y))
    )
    with gpytorch.settings.num_likelihood_samples(n_samples):
        maximise(model, bound, mini_batches(rows, batch, epochs, seed), learning_rate)
    return FittedDeepGP(model, rows, torch.randn(n_samples, 1, n_hidden).to(rows.x))
