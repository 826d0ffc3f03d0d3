"""Dense GPs, their algebra, their warps and mixtures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.crps import Array, cdf_of_rows, integrated_crps
from builders.models import normal, target_scaling
from lab_builders.peers import QUICK_MLWGP, fitted_bwgp, rows, scalar, skewed_rows
from scipy import integrate, stats
from scipy.spatial.distance import cdist
from sswim_lab.peers.dense_gp import (
    GP,
    SolvedSystem,
    SquaredExponential,
    condition,
    minimise,
    negative_log_evidence,
    plus_diagonal,
    solve_system,
)
from sswim_lab.peers.mixture import MixturePredictive, gaussian_mixture
from sswim_lab.peers.protocol import Fitted, Predictive, standardise
from sswim_lab.peers.warped_gp import MAX_STEEPNESS, MLWGP, FittedWarpedGP, negative_log_likelihood
from torch import Tensor

from sswim.base.cholesky import FactorisationError


def test_the_best_of_several_starts_goes_on() -> None:
    """The objective has a low minimum near 2 and a high one near −2."""

    def objective(point: Tensor) -> Tensor:
        return ((point.square() - 4).square() - point).sum()

    starts = [np.array([-2.5]), np.array([1.5]), np.array([-1.0])]
    device = torch.device("cpu")
    found = minimise(objective, starts, [(-5.0, 5.0)], device, 3, 50)
    assert found == pytest.approx([2.0307], abs=1e-3)
    assert minimise(objective, starts[1:2], [(0.5, 1.7)], device, 3, 50) == pytest.approx([1.7])
    assert minimise(objective, starts[:1], [(-5.0, 5.0)], device, 3, 50)[0] < 0


def test_rows_that_are_not_finite_raise() -> None:
    x, y = rows(20)
    fitted = GP(1, 1).fit(x, y, 0, "cpu")
    x[3, 1] = np.nan
    with pytest.raises(ValueError, match="x must be finite"):
        GP().fit(x, y, 0, "cpu")
    with pytest.raises(ValueError, match="x must be finite"):
        fitted.predict(x)


def random_kernel(generator: torch.Generator, n_inputs: int) -> SquaredExponential:
    return SquaredExponential(0.3 * normal(generator, n_inputs), scalar(0.4))


def covariance(kernel: SquaredExponential, x: Tensor, others: Tensor) -> np.ndarray:
    lengths = kernel.log_lengths.exp().numpy()
    squared = cdist(x.numpy() / lengths, others.numpy() / lengths, "sqeuclidean")
    return np.exp(2 * kernel.log_signal.item() - 0.5 * squared)


def test_the_evidence_against_dense_algebra(generator: torch.Generator) -> None:
    x, y = normal(generator, 30, 3), normal(generator, 30)
    kernel, log_noise = random_kernel(generator, 3), scalar(-0.5)
    matrix = covariance(kernel, x, x) + np.exp(-1.0) * np.eye(30)
    expected = -stats.multivariate_normal(np.zeros(30), matrix).logpdf(y.numpy())
    value = negative_log_evidence(kernel, log_noise, x, y).item()
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("one_for_each", [False, True])
def test_predictions_against_dense_algebra(
    one_for_each: bool, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim_lab.peers.dense_gp._CHUNK_ROWS", 4)
    x, y, new = normal(generator, 30, 3), normal(generator, 30), normal(generator, 9, 3)
    noise = normal(generator, 30).square() if one_for_each else scalar(0.3)
    kernel = random_kernel(generator, 3)
    mean, variance = condition(kernel, x, noise, y).predict(new)
    matrix = covariance(kernel, x, x) + noise.numpy() * np.eye(30)
    cross = covariance(kernel, new, x)
    assert np.allclose(mean.numpy(), cross @ np.linalg.solve(matrix, y.numpy()), rtol=1e-8)
    posterior = covariance(kernel, new, new) - cross @ np.linalg.solve(matrix, cross.T)
    assert np.allclose(variance.numpy(), posterior.diagonal(), rtol=1e-8)


def test_gradients(generator: torch.Generator) -> None:
    """Gradients of the solution, of the inverse's diagonal, of the determinant, and of all."""
    x = normal(generator, 8, 2)

    def everything(
        log_lengths: Tensor, log_signal: Tensor, noise: Tensor, vector: Tensor
    ) -> tuple[Tensor, ...]:
        matrix = SquaredExponential(log_lengths, log_signal).matrix(x)
        found = solve_system(plus_diagonal(matrix, noise.exp()), vector)
        return found.solution, found.inverse_diagonal, found.log_determinant

    def evidence(log_lengths: Tensor, log_signal: Tensor, noise: Tensor, y: Tensor) -> Tensor:
        return negative_log_evidence(SquaredExponential(log_lengths, log_signal), noise[0], x, y)

    shapes = ((2,), (), (8,), (8,))
    leaves = tuple((0.3 * normal(generator, *shape)).requires_grad_() for shape in shapes)
    torch.autograd.gradcheck(everything, leaves)
    torch.autograd.gradcheck(evidence, leaves)


def test_a_solved_system(generator: torch.Generator) -> None:
    root, vector = normal(generator, 6, 6), normal(generator, 6)
    matrix = root @ root.mT + torch.eye(6).to(root)
    found = solve_system(matrix, vector)
    expected = SolvedSystem(
        torch.linalg.solve(matrix, vector), matrix.inverse().diagonal(), matrix.logdet()
    )
    for value, reference in zip(found.tensors(), expected.tensors(), strict=True):
        assert torch.allclose(value, reference, rtol=1e-10)


def test_an_indefinite_covariance_raises(generator: torch.Generator) -> None:
    x, y = normal(generator, 5, 2), normal(generator, 5)
    with pytest.raises(FactorisationError, match="covariance of the rows must be positive"):
        condition(random_kernel(generator, 2), x, -10 * torch.ones_like(y), y)


def test_equal_rows_need_little_noise(generator: torch.Generator) -> None:
    x = normal(generator, 5, 2).repeat(4, 1)
    mean, variance = condition(random_kernel(generator, 2), x, scalar(0.0), x[:, 0]).predict(x)
    assert torch.allclose(mean, x[:, 0], atol=1e-6)
    assert (variance >= 0).all()


@pytest.fixture(scope="module")
def fitted() -> FittedWarpedGP:
    return QUICK_MLWGP.fit(*skewed_rows(), 0, "cpu")


def test_the_likelihood_against_its_formula(generator: torch.Generator) -> None:
    x, y = skewed_rows(25)
    training = standardise(x, y, "cpu")
    point = 0.3 * normal(generator, 2 + 3 + 3 * 2)
    lengths, (s, noise, shift), m, log_b, log_c = np.split(point.numpy(), [2, 5, 7, 9])
    b, c, targets = np.exp(log_b), np.exp(log_c), training.y.numpy()[:, None]
    z = shift + targets[:, 0] + (c / b * np.tanh(b * (targets - m))).sum(1)
    slope = 1 + (c / np.cosh(b * (targets - m)) ** 2).sum(1)
    scaled = training.x.numpy() / np.exp(lengths)
    squared = np.square(scaled[:, None] - scaled).sum(2)
    matrix = np.exp(2 * s - 0.5 * squared) + np.exp(2 * noise) * np.eye(25)
    expected = stats.multivariate_normal(np.zeros(25), matrix).logpdf(z) + np.log(slope).sum()
    value = negative_log_likelihood(point, 2, training).item()
    assert value == pytest.approx(-expected, rel=1e-10)


def test_the_density_is_that_of_the_warped_target(fitted: FittedWarpedGP) -> None:
    x, y = skewed_rows(15, seed=1)
    mean, latent = fitted.gp.predict(fitted.rows.inputs(x))
    deviation = (latent + (2 * fitted.log_noise).exp()).sqrt()
    spread = fitted.rows.scaling.target_spread.item()
    leaf = torch.tensor((y - fitted.rows.scaling.target_mean.item()) / spread)[:, None]
    leaf.requires_grad_()
    z, _ = fitted.output.forward(leaf)
    (slope,) = torch.autograd.grad(z.sum(), leaf)
    warped = z.detach()[:, 0].numpy()
    expected = stats.norm.pdf(warped, mean, deviation) * slope[:, 0].numpy() / spread
    assert np.allclose(np.exp(fitted.predict(x).log_density(y)), expected, rtol=1e-9)


def test_moments_and_intervals_against_draws(fitted: FittedWarpedGP) -> None:
    x, _ = skewed_rows(5, seed=2)
    predictive = fitted.predict(x)
    [mixture] = predictive.mixtures()
    [density] = mixture.densities
    deviations = np.random.default_rng(0).normal(size=(20000, 1, 5, 1))
    spread = density.warped.observation_variance.sqrt()
    drawn = density.output.inverse(density.warped.mean + spread * torch.as_tensor(deviations))
    draws = density.scaling.original_targets(drawn)[:, 0, :, 0].numpy()
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(predictive.mean - draws.mean(axis=0)) < 5 * error).all()
    assert np.allclose(predictive.variance, draws.var(axis=0), rtol=0.1)
    lower, upper = predictive.interval(0.8)
    assert np.allclose(np.mean((lower <= draws) & (draws <= upper), axis=0), 0.8, atol=0.015)


@pytest.mark.parametrize("bayesian", [False, True])
def test_a_log_normal_target_is_learnt(bayesian: bool, fitted: FittedWarpedGP) -> None:
    """The density is far better than that of a GP without a warp, and close to the true one."""
    test_x, test_y = skewed_rows(400, seed=1)
    model: Fitted = fitted_bwgp() if bayesian else fitted
    warped = model.predict(test_x).log_density(test_y).mean()
    plain = GP().fit(*skewed_rows(), 0, "cpu").predict(test_x).log_density(test_y).mean()
    truth = np.mean(stats.lognorm.logpdf(test_y, 0.4, scale=np.exp(np.sin(2 * test_x[:, 0]))))
    assert warped > plain + 0.25
    assert warped > truth - 0.25


@pytest.mark.parametrize("n_terms", [3, 20])
def test_tied_targets_make_no_spikes(n_terms: int) -> None:
    """Steps have a largest slope and are where the targets are: beyond them they were cliffs."""
    x, y = skewed_rows()
    fitted = MLWGP(n_terms, start_iterations=5, iterations=60).fit(x, np.round(3 * y), 0, "cpu")
    assert fitted.output.log_steepness.exp().max() <= MAX_STEEPNESS * (1 + 1e-12)
    location, targets = fitted.output.location, fitted.rows.y
    assert targets.min() - 1e-12 <= location.min() <= location.max() <= targets.max() + 1e-12
    predictive = fitted.predict(x[:1].repeat(41, axis=0))
    densities = np.exp(predictive.log_density(np.linspace(1, 5, 41)))
    assert np.abs(np.diff(np.log(densities))).max() < 1


def test_crps_of_a_warped_gp_against_integrals(fitted: FittedWarpedGP) -> None:
    x, y = skewed_rows(5, seed=1)
    predictive = fitted.predict(x)
    [mixture] = predictive.mixtures()
    expected = integrated_crps(cdf_of_rows(mixture), y, -10, 30, 4000)
    assert predictive.crps(y) == pytest.approx(expected, rel=3e-3)


MEAN, SPREAD = 3.0, 2.0
WEIGHTS = np.array([0.3, 0.7])
MEANS = np.array([[0.0, -4.0, 5.0], [1.0, 4.0, 5.0]])
"""Means of two components in three rows: overlapping, far apart and equal."""
VARIANCES = np.array([[1.0, 0.5, 2.0], [2.0, 1.0, 2.0]])


@pytest.fixture
def predictive() -> MixturePredictive:
    """The mixtures in other units, in chunks of two rows and of one."""
    weights, means, variances = map(torch.from_numpy, (WEIGHTS, MEANS, VARIANCES))
    chunks = [
        gaussian_mixture(weights, *parts, target_scaling([MEAN], [SPREAD]))
        for parts in zip(means.split(2, dim=1), variances.split(2, dim=1), strict=True)
    ]
    return MixturePredictive(lambda: chunks)


def test_densities_integrate_to_one(predictive: MixturePredictive) -> None:
    values = np.linspace(-60, 60, 2401)
    densities = [np.exp(predictive.log_density(np.full(3, value))) for value in values]
    assert np.allclose(integrate.trapezoid(densities, values, axis=0), 1)


def test_moments_and_intervals_against_samples(predictive: MixturePredictive) -> None:
    assert isinstance(predictive, Predictive)
    random = np.random.default_rng(0)
    component = random.choice(2, size=400_000, p=WEIGHTS)
    noise = random.normal(size=(len(component), 3))
    drawn = MEAN + SPREAD * (MEANS[component] + np.sqrt(VARIANCES[component]) * noise)
    assert np.allclose(drawn.mean(axis=0), predictive.mean, atol=0.03)
    assert np.allclose(drawn.var(axis=0), predictive.variance, rtol=0.01)
    quantiles = np.quantile(drawn, [0.05, 0.95], axis=0)
    assert np.allclose(predictive.interval(0.9), quantiles, atol=0.03)


def test_crps_against_integrals(predictive: MixturePredictive) -> None:
    y = np.array([0.5, 0.0, 9.0])

    def cdf(values: Array) -> Array:
        below = stats.norm.cdf(values, MEANS[..., None], np.sqrt(VARIANCES)[..., None])
        return np.tensordot(WEIGHTS, below, axes=1)

    expected = SPREAD * integrated_crps(cdf, y, -30, 30)
    assert predictive.crps(MEAN + SPREAD * y) == pytest.approx(expected, rel=3e-3)
