from __future__ import annotations

import pytest
import torch
from helpers import normal

from sswim.mixture import Mixture
from sswim.prediction import Prediction


def prediction(generator: torch.Generator) -> Prediction:
    latent = normal(generator, 5, 2).square() + 0.1
    return Prediction(3 * normal(generator, 5, 2), latent, latent + 0.3)


@pytest.fixture
def mixture(generator: torch.Generator) -> Mixture:
    return Mixture(tuple(prediction(generator) for _ in range(3)))


def test_moments_and_quantiles_against_draws(mixture: Mixture, generator: torch.Generator) -> None:
    n = 300_000
    draws = torch.cat(
        [
            m.mean + m.observation_variance.sqrt() * normal(generator, n, 5, 2)
            for m in mixture.members
        ]
    )
    assert torch.allclose(draws.mean(0), mixture.mean, atol=0.02)
    assert torch.allclose(draws.var(0), mixture.observation_variance, rtol=0.02)
    for probability in (0.05, 0.5, 0.95):
        below = (draws < mixture.quantile(probability)).double().mean(0)
        assert (below - probability).abs().max() < 0.003


def test_latent_variance_leaves_the_noise_out(mixture: Mixture) -> None:
    difference = mixture.observation_variance - mixture.latent_variance
    assert torch.allclose(difference, torch.full_like(difference, 0.3))


def test_density_integrates_to_one_and_is_that_of_the_quantiles(mixture: Mixture) -> None:
    grid = torch.linspace(-40, 40, 200_001, dtype=torch.float64)
    density = torch.stack([mixture.log_density(value.expand(5, 2)).exp() for value in grid[::100]])
    step = (grid[100] - grid[0]).item()
    assert torch.allclose(density.sum(0) * step, torch.ones(5, 2, dtype=torch.float64), atol=1e-6)


def test_one_member_is_the_gaussian_itself(generator: torch.Generator) -> None:
    alone = prediction(generator)
    mixture = Mixture((alone,))
    assert torch.equal(mixture.mean, alone.mean)
    assert torch.equal(mixture.observation_variance, alone.observation_variance)
    gaussian = torch.distributions.Normal(alone.mean, alone.observation_variance.sqrt())
    for probability in (0.01, 0.3, 0.9):
        expected = gaussian.icdf(torch.tensor(probability, dtype=torch.float64))
        assert torch.allclose(mixture.quantile(probability), expected)


def test_quantiles_invert_the_distribution_function(mixture: Mixture) -> None:
    for probability in (1e-6, 0.2, 1 - 1e-6):
        value = mixture.quantile(probability)
        members = [
            torch.distributions.Normal(m.mean, m.observation_variance.sqrt()).cdf(value)
            for m in mixture.members
        ]
        reached = torch.stack(members).mean(0)
        assert torch.allclose(reached, torch.full_like(reached, probability), rtol=1e-6)
