"""Predictive densities that are mixtures of Gaussians: against integrals and samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.crps import Array, integrated_crps
from builders.models import target_scaling
from scipy import integrate, stats
from sswim_lab.peers.mixture import MixturePredictive, gaussian_mixture
from sswim_lab.peers.protocol import Predictive

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
