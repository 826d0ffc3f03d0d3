"""The models of ``gpytorch_peers``, their training and their predictions, by GPyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.models.deep_gps import DeepGP, DeepGPLayer
from jaxtyping import Float, Float64
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from sswim_lab.peers.gpytorch_peers import quiet, seeded
from sswim_lab.peers.mixture import MixturePredictive, gaussian_mixture
from sswim_lab.peers.protocol import Gaussian, StandardisedRows

PREDICTED_ROWS = 1000
"""Number of test rows in a chunk, whose joint covariance is in memory."""


@dataclass(frozen=True)
class FittedGPyTorchModel:
    """A trained model of GPyTorch that has a likelihood."""

    model: Any
    rows: StandardisedRows
    seed: int
    """Seed of the predictions, some of which are random."""
    context: Callable[[], AbstractContextManager[None]] = nullcontext
    """Settings of GPyTorch for predictions."""

    def predict(self, x: Float64[np.ndarray, "M D"]) -> Gaussian:
        """Return the predictive densities at rows."""
        inputs = self.rows.inputs(x)
        with quiet(), seeded(self.seed, inputs.device), self.context(), torch.no_grad():
            return self.rows.gaussian(*predict_in_chunks(self._observation, inputs))

    def _observation(self, x: Float[Tensor, "M D"]) -> tuple[Tensor, Tensor]:
        """Return the standardised mean and variance of observations."""
        prediction = self.model.likelihood(self.model(x))
        return prediction.mean, prediction.variance


def predict_in_chunks(
    predict: Callable[[Tensor], tuple[Tensor, Tensor]], x: Float[Tensor, "M D"]
) -> tuple[Float[Tensor, "*samples M"], Float[Tensor, "*samples M"]]:
    """Return the means and variances of all rows, predicted one chunk after another."""
    means, variances = zip(*map(predict, x.split(PREDICTED_ROWS)), strict=True)
    return torch.cat(means, dim=-1), torch.cat(variances, dim=-1)


def maximise(
    model: Any,
    objective: Callable[[Any, Tensor], Tensor],
    batches: Iterable[tuple[Tensor, Tensor]],
    learning_rate: float,
) -> None:
    """Train a model by one step of Adam for every mini-batch, and leave it ready to predict."""
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    model.train()
    for x, y in batches:
        optimiser.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimiser.step()
    model.eval()


def mini_batches(
    rows: StandardisedRows, size: int, epochs: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield mini-batches of rows, in another random order in every epoch."""
    generator = torch.Generator().manual_seed(seed)  # the same on every device
    for _ in range(epochs):
        order = torch.randperm(len(rows.y), generator=generator).to(rows.x.device)
        for chosen in order.split(size):
            yield rows.x[chosen], rows.y[chosen]


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


def sparse_gp_model(x: Tensor, y: Tensor, n_inducing: int) -> ExactGPModel:
    """Return a GP whose inducing points start at the first rows, and are learnt."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    # A copy: the optimiser moves the inducing points in place, and the rows must stay.
    inducing = x[:n_inducing].clone()
    kernel = gpytorch.kernels.InducingPointKernel(matern(x.shape[1]), inducing, likelihood)
    return ExactGPModel(x, y, kernel, likelihood).to(x)


def fit_sgpr(
    rows: StandardisedRows, seed: int, n_inducing: int, steps: int, learning_rate: float
) -> FittedGPyTorchModel:
    """Maximise the collapsed bound of the evidence by Adam."""
    model = sparse_gp_model(rows.x, rows.y, n_inducing)
    return fit_evidence(model, rows, seed, steps, learning_rate, _low_rank_algebra)


@contextmanager
def _low_rank_algebra() -> Iterator[None]:
    """Keep GPyTorch's fast computations: without them it would form N × N matrices."""
    with gpytorch.settings.cholesky_max_tries(CHOLESKY_TRIES):
        yield


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
        means, variances = (moment.to(torch.float64) for moment in moments)
        weights = torch.full_like(means[:, 0], 1 / len(self.draws))
        mixture = gaussian_mixture(weights, means, variances, self.rows.scaling)
        return MixturePredictive(lambda: [mixture])

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
