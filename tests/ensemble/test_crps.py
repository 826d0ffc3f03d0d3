"""The CRPS: against closed forms, integrals and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from builders.crps import Array, integrated_crps
from scipy import stats

from sswim.ensemble.scores import LEVEL_WEIGHTS, LEVELS, gaussian_crps, mixture_crps


def scored(densities: list[tuple[float, Any]], y: Array) -> Array:
    """Return the CRPS of a mixture of distributions of SciPy at several observations."""

    def quantiles(level: float) -> torch.Tensor:
        values = [density.ppf(level) for _, density in densities]
        return torch.tensor(values, dtype=torch.float64).expand(len(y), -1)

    weights = torch.tensor([weight for weight, _ in densities], dtype=torch.float64)
    return mixture_crps(quantiles, weights, torch.tensor(y)[:, None]).numpy()


def test_levels_are_symmetric_and_weighted() -> None:
    assert np.isclose(sum(LEVEL_WEIGHTS), 1)
    assert np.allclose(np.array(LEVELS) + np.array(LEVELS[::-1]), 1)


def test_gaussian() -> None:
    mean, deviation, y = (
        np.array([0.0, 1.0, -2.0]),
        np.array([1.0, 0.1, 5.0]),
        np.array([0.3, 2, 4]),
    )
    cdf = stats.norm(mean[:, None], deviation[:, None]).cdf
    expected = integrated_crps(cdf, y, -40, 40)
    assert gaussian_crps(mean, deviation**2, y) == pytest.approx(expected, rel=1e-4)


def test_one_component_has_the_closed_form_of_its_density() -> None:
    y = np.linspace(-5, 8, 27)
    exact = gaussian_crps(np.full(27, 1.0), np.full(27, 4.0), y)
    assert scored([(1.0, stats.norm(1, 2))], y) == pytest.approx(exact, rel=1e-3)


def test_heavy_tails() -> None:
    y, density = np.array([-30.0, -3, 0.0, 1, 8]), stats.t(3)
    expected = integrated_crps(density.cdf, y, -300, 300)
    assert scored([(1.0, density)], y) == pytest.approx(expected, rel=1e-3)


def test_a_mixture_against_samples() -> None:
    """E|X − y| − ½E|X − X'| of a wide, a narrow and a distant component."""
    densities = [(0.5, stats.norm(0, 1)), (0.3, stats.norm(0.3, 0.02)), (0.2, stats.norm(4, 0.5))]
    random = np.random.default_rng(0)
    chosen = random.choice(3, size=2_000_000, p=[weight for weight, _ in densities])
    means, deviations = np.array([0, 0.3, 4]), np.array([1, 0.02, 0.5])
    drawn = random.normal(means[chosen], deviations[chosen])
    half = np.abs(drawn[::2] - drawn[1::2]).mean() / 2
    y = np.array([-2.0, 0.3, 1.0, 5.0])
    expected = [np.abs(drawn - value).mean() - half for value in y]
    assert scored(densities, y) == pytest.approx(expected, rel=5e-3)
