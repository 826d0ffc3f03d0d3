"""The warped GP by maximum likelihood."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.crps import cdf_of_rows, integrated_crps
from builders.models import normal
from lab_builders.peers import QUICK_MLWGP, fitted_bwgp, skewed_rows
from scipy import stats
from sswim_lab.peers.dense_gp import GP
from sswim_lab.peers.protocol import Fitted, standardise
from sswim_lab.peers.warped_gp import MAX_STEEPNESS, MLWGP, FittedWarpedGP, negative_log_likelihood


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
    draws = density.unwarp(
        density.warped.mean
        + density.warped.observation_variance.sqrt() * torch.as_tensor(deviations)
    )[:, 0, :, 0].numpy()
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


def test_crps_against_integrals(fitted: FittedWarpedGP) -> None:
    x, y = skewed_rows(5, seed=1)
    predictive = fitted.predict(x)
    [mixture] = predictive.mixtures()
    expected = integrated_crps(cdf_of_rows(mixture), y, -10, 30, 4000)
    assert predictive.crps(y) == pytest.approx(expected, rel=3e-3)
