"""Mixtures of Gaussians: against closed forms, integrals and samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.crps import Array, integrated_crps
from builders.models import target_scaling
from lab_builders.peers import scalar
from scipy import integrate, stats
from sswim_lab.peers.mixture import GaussianMixture, MixturePredictive
from sswim_lab.peers.protocol import Predictive
from torch import Tensor

MEAN, SPREAD = 3.0, 2.0


def tensor(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.fixture
def mixture() -> GaussianMixture:
    """Two components in three rows: overlapping, far apart and equal."""
    means = tensor((0.0, 1.0), (-4.0, 4.0), (5.0, 5.0))
    variances = tensor((1.0, 2.0), (0.5, 1.0), (2.0, 2.0))
    return GaussianMixture(tensor(0.3, 0.7), means, variances)


@pytest.fixture
def predictive(mixture: GaussianMixture) -> MixturePredictive:
    """The mixtures in other units, in chunks of two rows and of one."""
    chunks = [
        GaussianMixture(mixture.weights, means, variances)
        for means, variances in zip(mixture.means.split(2), mixture.variances.split(2), strict=True)
    ]
    return MixturePredictive.from_mixtures(lambda: chunks, target_scaling([MEAN], [SPREAD]))


def samples(mixture: GaussianMixture, n: int) -> Array:
    random = np.random.default_rng(0)
    component = random.choice(2, size=n, p=mixture.weights.numpy())
    noise = random.normal(size=(n, len(mixture.means)))
    means, deviations = mixture.means.numpy().T, mixture.variances.sqrt().numpy().T
    return means[component] + deviations[component] * noise


def test_quantiles_and_moments_against_closed_forms() -> None:
    """Two components far apart, and two equal ones."""
    means, variances = tensor((-5.0, 5.0), (1.0, 1.0)), tensor((0.01, 0.01), (4.0, 4.0))
    mixture = GaussianMixture(tensor(0.3, 0.7), means, variances)
    for probability in (0.01, 0.29, 0.31, 0.5, 0.999):
        found = mixture.quantile(probability)
        assert torch.allclose(mixture.cdf(found), scalar(probability), atol=1e-12)
        assert found[1].item() == pytest.approx(stats.norm.ppf(probability, 1, 2), abs=1e-9)
    mean, variance = mixture.moments()
    assert torch.allclose(mean, tensor(2.0, 1.0))
    assert torch.allclose(variance, tensor(21.01, 4.0))
    values = np.linspace(-60, 60, 2401)
    densities = [mixture.log_density(scalar(value).expand(2)).exp().numpy() for value in values]
    assert np.allclose(integrate.trapezoid(densities, values, axis=0), 1)


def test_moments_and_intervals_against_samples(
    mixture: GaussianMixture, predictive: MixturePredictive
) -> None:
    assert isinstance(predictive, Predictive)
    drawn = MEAN + SPREAD * samples(mixture, 400_000)
    assert np.allclose(drawn.mean(axis=0), predictive.mean, atol=0.03)
    assert np.allclose(drawn.var(axis=0), predictive.variance, rtol=0.01)
    quantiles = np.quantile(drawn, [0.05, 0.95], axis=0)
    assert np.allclose(predictive.interval(0.9), quantiles, atol=0.03)


def test_crps_against_integrals_in_both_units(
    mixture: GaussianMixture, predictive: MixturePredictive
) -> None:
    y = np.array([0.5, 0.0, 9.0])

    def cdf(values: Array) -> Array:
        weights, means = mixture.weights.numpy(), mixture.means.numpy()
        deviations = mixture.variances.sqrt().numpy()
        parts = [
            weight * stats.norm.cdf(values, means[:, [q]], deviations[:, [q]])
            for q, weight in enumerate(weights)
        ]
        return sum(parts, np.zeros_like(parts[0]))

    expected = integrated_crps(cdf, y, -30, 30)
    assert mixture.crps(torch.tensor(y)).numpy() == pytest.approx(expected, rel=3e-3)
    assert predictive.crps(MEAN + SPREAD * y) == pytest.approx(SPREAD * expected, rel=3e-3)
