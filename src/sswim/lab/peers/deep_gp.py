"""A deep Gaussian process of two layers, by doubly stochastic inference in GPyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.lab.peers.exact_gp import matern
from sswim.lab.peers.gpytorch_training import Standardised, in_batches, maximise, quiet
from sswim.lab.peers.mixture import GaussianMixture


class Layer(DeepGPLayer):  # type: ignore[misc]
    """Processes of the same inputs, one for each output; None is a single one without an axis."""

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
        """The prior of the functions at rows."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


class TwoLayers(DeepGP):  # type: ignore[misc]
    """A hidden layer around a linear mean, and one output."""

    def __init__(self, n_inputs: int, n_hidden: int, n_inducing: int) -> None:
        super().__init__()
        self.hidden = Layer(n_inputs, n_hidden, n_inducing, gpytorch.means.LinearMean(n_inputs))
        self.last = Layer(n_hidden, None, n_inducing, gpytorch.means.ConstantMean())
        self.likelihood = gpytorch.likelihoods.GaussianLikelihood()

    def forward(self, x: Tensor) -> Any:
        """The output given samples of the hidden layer."""
        return self.last(self.hidden(x))


@dataclass(frozen=True)
class FittedDeepGP:
    """A trained deep process, and the scales of its rows."""

    model: TwoLayers
    rows: Standardised
    draws: Float[Tensor, "S 1 H"]
    """Standard normal, of the hidden layer; the same for every row.

    So the density of a row does not depend on the rows beside it.
    """

    def predict(self, x: Float64[np.ndarray, "M D"]) -> GaussianMixture:
        """The densities of the targets of rows: a Gaussian for each draw."""
        scales = self.rows.scales
        # The hidden layer is asked for one sample, because its moments are the same in all.
        with quiet(), gpytorch.settings.num_likelihood_samples(1), torch.no_grad():
            moments = in_batches(self._observation, scales.inputs(x))
        return GaussianMixture(*scales.original(*moments))

    def _observation(self, x: Float[Tensor, "M D"]) -> tuple[Tensor, Tensor]:
        hidden = self.model.hidden(x)
        samples = hidden.mean[0] + self.draws * hidden.variance[0].sqrt()
        prediction = self.model.likelihood(self.model.last(samples, are_samples=True))
        return prediction.mean, prediction.variance


def fit_deep_gp(
    rows: Standardised,
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
        maximise(model, bound, rows.shuffled(batch, epochs), learning_rate)
    return FittedDeepGP(model, rows, torch.randn(n_samples, 1, n_hidden).to(rows.x))
