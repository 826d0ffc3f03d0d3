from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import normal
from scipy.stats import norm

from sswim.rows import Measure
from sswim.warps import NoiseField, log_noise_ratio


def random_field(
    generator: torch.Generator, n_targets: int = 2, n_frequencies: int = 4
) -> NoiseField:
    """Make a noise field with random parameters."""
    field = NoiseField(3, n_frequencies, n_targets)
    field.spectrum.start("matern32", torch.ones(3, dtype=torch.float64), generator)
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.add_(normal(generator, *parameter.shape))
    return field


@pytest.fixture
def points(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 12, 3))


@pytest.mark.parametrize("uncertain", [False, True])
@torch.no_grad()
def test_against_the_formula(uncertain: bool, points: Measure, generator: torch.Generator) -> None:
    field = random_field(generator)
    x = points.mean.numpy()
    variance = 0.3 * normal(generator, 12, 3).square() if uncertain else None
    ours = log_noise_ratio(field.factors()[0], Measure(points.mean, input_variance=variance))
    frequencies = field.spectrum.frequencies().numpy()
    damping = np.exp(-0.5 * variance.numpy() @ frequencies.T**2) if variance is not None else 1.0
    features = np.hstack([f(x @ frequencies.T) * damping for f in (np.cos, np.sin)]) / np.sqrt(4)
    deviation = np.sqrt(0.1)  # of the prior
    expected = field.level.numpy() + deviation * features @ field.coefficients.numpy()
    expected += deviation * x @ field.slopes.numpy() / np.sqrt(3)
    assert np.allclose(ours.numpy(), 8 * np.tanh(expected / 8), rtol=1e-12)
    prior = norm.logpdf(field.coefficients.numpy()).sum() + norm.logpdf(field.slopes.numpy()).sum()
    assert field.factors()[1].item() == pytest.approx(-prior, rel=1e-12)  # not of the level


@torch.no_grad()
def test_the_noise_has_limits_however_far(points: Measure, generator: torch.Generator) -> None:
    factors = random_field(generator).factors()[0]
    far = log_noise_ratio(factors, Measure(1e12 * points.mean))
    assert far.abs().max() <= 8
    assert far.abs().min() > 7.9  # where the linear part has taken it
    assert log_noise_ratio(factors, points).abs().max() < 7.9
    assert not log_noise_ratio(NoiseField(3, 4, 2).factors()[0], points).any()  # zero: constant


@torch.no_grad()
def test_float32_inputs_give_nearly_the_same(points: Measure, generator: torch.Generator) -> None:
    factors = random_field(generator).factors()[0]
    single = log_noise_ratio(factors, points.to(dtype=torch.float32))
    assert single.dtype == torch.float64
    assert torch.allclose(single, log_noise_ratio(factors, points), atol=1e-5)


@torch.no_grad()
def test_under_the_prior_each_part_has_the_variance_it_says(generator: torch.Generator) -> None:
    """The features have it everywhere, the linear part on average over standardised inputs."""
    field = random_field(generator, n_targets=40_000)
    field.coefficients.copy_(normal(generator, *field.coefficients.shape))
    field.slopes.copy_(normal(generator, *field.slopes.shape))
    small = 1e-3  # so that the limit does not matter
    factors = field.factors()[0].map(lambda tensor: small * tensor)
    factors = replace(factors, frequencies=factors.frequencies / small)
    x = normal(generator, 50, 3)
    factors = replace(factors, level=0 * factors.level)
    features = replace(factors, slopes=0 * factors.slopes)
    variance = (log_noise_ratio(features, Measure(x)) / small).var(-1)
    assert torch.allclose(variance, torch.full_like(variance, 0.1), rtol=0.05)
    linear = replace(factors, coefficients=0 * factors.coefficients)
    variance = (log_noise_ratio(linear, Measure(x)) / small).var(-1)
    assert torch.allclose(variance, 0.1 * x.square().mean(-1), rtol=0.05)
