"""The warp that is integrated out: its expectations and its bound against brute force."""

from __future__ import annotations

import pytest
import torch
from builders.models import normal
from lab_builders.peers import warp_prior
from sswim_lab.peers.bayesian_warped_gp import JITTER, psi_statistics, warp_posterior
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence


def test_psi_statistics_against_draws(generator: torch.Generator) -> None:
    prior, n_points = warp_prior(), 5
    mean, variance = normal(generator, 3), normal(generator, 3).square()
    psi = psi_statistics(prior, n_points, mean, variance)
    draws = mean + variance.sqrt() * normal(generator, 200_000, 3)
    values = prior.kernel(draws, prior.grid(n_points))  # (draws, N, m)

    def assert_close(expectation: Tensor, samples: Tensor) -> None:
        error = samples.std(0) / len(samples) ** 0.5
        assert ((expectation - samples.mean(0)).abs() < 5 * error + 1e-9).all()

    assert_close(psi.first, values)
    assert_close(psi.weighted, draws[..., None] * values)
    assert_close(psi.second, torch.einsum("snm,snk->smk", values, values))


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
    mean, variance, y = (
        normal(generator, 4),
        0.3 * normal(generator, 4).square(),
        normal(generator, 4),
    )
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
