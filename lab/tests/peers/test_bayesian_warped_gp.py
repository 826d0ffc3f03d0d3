"""The Bayesian warped GP: its bounds, its warp and its densities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import normal
from lab_builders.peers import fitted_bwgp, scalar, skewed_rows, warp_prior
from scipy import stats
from scipy.integrate import cumulative_trapezoid, trapezoid
from sswim_lab.peers.bayesian_warped_gp import (
    JITTER,
    N_SCALARS,
    FittedBayesianWarpedGP,
    Parameters,
    evidence_bound,
    warp_posterior,
)
from sswim_lab.peers.dense_gp import minimise
from sswim_lab.peers.protocol import StandardisedRows, standardise
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence


def random_point(generator: torch.Generator, training: StandardisedRows) -> Tensor:
    """A point of the optimiser whose grid of the warp covers the targets."""
    n_rows, n_inputs = training.x.shape
    point = 0.3 * normal(generator, n_inputs + N_SCALARS + 2 * n_rows)
    point[n_inputs + 1] = -1.0  # log τ
    point[n_inputs + 6] = -5.0
    point[n_inputs + 7] = np.log(10.0)
    return point


def best_bound(parameters: Parameters, training: StandardisedRows, n_points: int) -> float:
    """The best bound over q(f), with everything else fixed."""
    n_rows, n_inputs = training.x.shape

    def objective(point: Tensor) -> Tensor:
        return -evidence_bound(Parameters.from_point(point, n_inputs), training, n_points).value

    start = parameters.point()
    fixed = [(value, value) for value in start[: -2 * n_rows]]
    limits = [*fixed, *[(-9.0, 9.0)] * (2 * n_rows)]
    best = minimise(objective, [start], limits, torch.device("cpu"), 0, 200)
    return -objective(torch.as_tensor(best)).item()


@pytest.fixture
def fitted() -> FittedBayesianWarpedGP:
    return fitted_bwgp()


def test_the_divergence_and_marginals_of_f(generator: torch.Generator) -> None:
    training = standardise(*skewed_rows(9), "cpu")
    point = random_point(generator, training)
    parameters = Parameters.from_point(point, 2)
    assert np.allclose(parameters.point(), point.numpy(), rtol=1e-12)
    eye = torch.eye(9).to(training.x)
    prior_covariance = parameters.kernel.matrix(training.x) + (2 * parameters.log_noise).exp() * eye
    precision = torch.diag((-parameters.log_pseudo_variance).exp())
    covariance = (prior_covariance.inverse() + precision).inverse()
    gap = parameters.pseudo_targets - parameters.offset
    mean = parameters.offset + covariance @ precision @ gap
    q = MultivariateNormal(mean, 0.5 * (covariance + covariance.mT))
    divergence = kl_divergence(q, MultivariateNormal(parameters.offset.expand(9), prior_covariance))
    warp = warp_posterior(parameters.prior, 10, training.y, mean, covariance.diagonal())
    expected = (warp.bound - divergence).item()
    assert evidence_bound(parameters, training, 10).value.item() == pytest.approx(
        expected, rel=1e-8
    )


def test_the_best_bound_of_a_constant_warp() -> None:
    """For h = c ~ N(0, α²) all is Gaussian, and the gap to the evidence has a closed form.

    The precision of (f, c) given y has the blocks P = K_f⁻¹ + I/σ², 1/σ² and p = N/σ² + 1/α². A q
    without the block between them misses ½(log|P| + log p − log|all|).
    """
    training = standardise(*skewed_rows(7), "cpu")
    parameters = Parameters.from_point(
        random_point(torch.Generator().manual_seed(1), training), training.x.shape[1]
    )
    parameters = replace(parameters, prior=warp_prior(length=1e4))
    eye, ones = torch.eye(7).to(training.x), torch.ones(7, 1, dtype=torch.float64)
    covariance = parameters.kernel.matrix(training.x) + (2 * parameters.log_noise).exp() * eye
    noise, amplitude = parameters.prior.noise_variance, parameters.prior.amplitude_variance
    block = covariance.inverse() + eye / noise
    last = (7 / noise + 1 / amplitude).reshape(1, 1)
    whole = torch.cat((torch.cat((block, ones / noise), 1), torch.cat((ones.mT / noise, last), 1)))
    evidence = MultivariateNormal(
        parameters.offset.expand(7), covariance + amplitude * ones @ ones.mT + noise * eye
    ).log_prob(training.y)
    missed = 0.5 * (block.logdet() + last.logdet() - whole.logdet())
    assert missed.item() > 0.1
    expected = (evidence - missed).item()
    assert best_bound(parameters, training, 4) == pytest.approx(expected, abs=1e-3)


def test_the_bound_of_the_warp_is_exact_where_f_is_known(generator: torch.Generator) -> None:
    """Without variance of f, and with a fine grid, y is Gaussian around f."""
    prior = warp_prior()
    f, y = normal(generator, 12), normal(generator, 12)
    warp = warp_posterior(prior, 60, y, f, torch.full_like(f, 1e-14))
    matrix = prior.kernel(f, f) + prior.noise_variance * torch.eye(12).to(f)
    expected = MultivariateNormal(f, matrix).log_prob(y)
    assert warp.bound.item() == pytest.approx(expected.item(), abs=1e-3)
    new = normal(generator, 2, 4)
    mean, variance = warp.predict(new)
    cross = prior.kernel(new.reshape(-1), f)
    expected_mean = new.reshape(-1) + cross @ torch.linalg.solve(matrix, y - f)
    assert torch.allclose(mean.reshape(-1), expected_mean, atol=1e-3)
    known = (cross * torch.linalg.solve(matrix, cross.mT).mT).sum(1)
    assert torch.allclose(variance.reshape(-1), prior.amplitude_variance - known, atol=1e-3)


def test_the_bound_of_the_warp_against_draws(generator: torch.Generator) -> None:
    """E log p(y|f, u) under q(f) and q(u), by draws of f, less KL(q(u)‖p(u))."""
    prior, n_points = warp_prior(), 8
    mean, y, scale = (normal(generator, 4) for _ in range(3))
    variance = 0.3 * scale.square()
    warp = warp_posterior(prior, n_points, y, mean, variance)
    eye = torch.eye(n_points).to(mean)
    covariance = warp.factor @ warp.factor.mT
    expected = prior.kernel(warp.points, warp.points) + JITTER * prior.amplitude_variance * eye
    assert torch.allclose(covariance, expected)
    centre = warp.factor @ torch.linalg.solve(warp.inner.mT, warp.projected)
    half = torch.linalg.solve(warp.inner, warp.factor.mT)
    q = MultivariateNormal(centre, half.mT @ half + 1e-12 * eye)
    draws = mean + variance.sqrt() * normal(generator, 100_000, 4)
    cross = prior.kernel(draws, warp.points)
    weights = torch.linalg.solve(covariance, cross.reshape(-1, n_points).mT).mT.reshape(cross.shape)
    residual = (y - draws - weights @ centre).square()
    unsure = prior.amplitude_variance - (weights * cross).sum(-1)
    unsure = unsure + ((weights @ q.covariance_matrix) * weights).sum(-1)
    noise = prior.noise_variance
    logs = -0.5 * ((2 * torch.pi * noise).log() + (residual + unsure) / noise).sum(1)
    divergence = kl_divergence(q, MultivariateNormal(torch.zeros_like(centre), covariance))
    error = 5 * logs.std().item() / len(logs) ** 0.5
    assert warp.bound.item() == pytest.approx((logs.mean() - divergence).item(), abs=error)


def test_the_density_is_the_integral_over_f(fitted: FittedBayesianWarpedGP) -> None:
    x, y = skewed_rows(6, seed=1)
    predictive, marginals = fitted.predict(x), fitted.marginals(x)
    spread = fitted.rows.scaling.target_spread.item()
    targets = (y - fitted.rows.scaling.target_mean.item()) / spread
    for row, target in enumerate(targets):
        mean, deviation = marginals.mean[row].item(), marginals.deviation[row].item()

        def density(f: float, target: float = target) -> float:
            warped, variance = fitted.warp.predict(scalar(f))
            total = (variance + fitted.warp.prior.noise_variance).sqrt().item()
            return float(stats.norm.pdf(target, warped.item(), total))

        latent = stats.norm(mean, deviation)
        low, high = mean - 8 * deviation, mean + 8 * deviation
        expected = latent.expect(density, lb=low, ub=high, limit=200, epsabs=1e-10)
        assert np.exp(predictive.log_density(y))[row] == pytest.approx(
            expected / spread, rel=1e-6, abs=1e-8
        )


def test_density_moments_and_intervals_are_consistent(fitted: FittedBayesianWarpedGP) -> None:
    grid = np.linspace(-10, 20, 3001)
    for row in skewed_rows(2, seed=2)[0]:
        predictive = fitted.predict(np.tile(row, (len(grid), 1)))
        density = np.exp(predictive.log_density(grid))
        assert trapezoid(density, grid) == pytest.approx(1, abs=1e-6)
        mean = trapezoid(grid * density, grid)
        assert predictive.mean[0] == pytest.approx(mean, rel=1e-4)
        variance = trapezoid((grid - mean) ** 2 * density, grid)
        assert predictive.variance[0] == pytest.approx(variance, rel=1e-3)
        below = cumulative_trapezoid(density, grid, initial=0)
        for coverage in (0.5, 0.9):
            (lower,), (upper,) = fitted.predict(row[None]).interval(coverage)
            shares = np.interp([lower, upper], grid, below)
            assert shares == pytest.approx([0.5 * (1 - coverage), 0.5 * (1 + coverage)], abs=1e-3)


def test_predictions_do_not_depend_on_other_rows(
    fitted: FittedBayesianWarpedGP, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = skewed_rows(30, seed=1)
    whole = fitted.predict(x)
    monkeypatch.setattr("sswim_lab.peers.bayesian_warped_gp._CHUNK_NODES", 700)
    parts = fitted.predict(x)
    assert np.allclose(parts.mean, whole.mean, rtol=1e-12)
    assert np.allclose(parts.variance, whole.variance, rtol=1e-10)
    assert np.allclose(parts.log_density(y), whole.log_density(y), rtol=1e-10)
    assert np.allclose(parts.interval(0.9), whole.interval(0.9), rtol=1e-9)
