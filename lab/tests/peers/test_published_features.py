"""Features and GPs of the published methods, against dense algebra."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from lab_builders.peers import seeded_generator, seeded_normal
from scipy import stats
from sswim_lab.peers.published_sswim import (
    KernelName,
    SpectralGP,
    TwoSpectraGP,
    draw_frequencies,
    inverse_positive,
    positive,
    start_length_scales,
)

from sswim.members.linear_regression import negative_log_evidence, posterior
from sswim.members.observations import Observations
from sswim.members.statistics import statistics
from sswim.rows import Measure


def spectral_gp(gp_class: type[SpectralGP] = SpectralGP) -> SpectralGP:
    length_scales = torch.tensor([0.7, 1.5], dtype=torch.float64)
    return gp_class("matern32", 8, length_scales, (0.4, 2.5), seeded_generator())


def test_positive_parameters_start_at_given_values() -> None:
    value = torch.tensor([1e-6, 0.1, 1.5, 40.0, 1e4], dtype=torch.float64)
    assert torch.allclose(positive(inverse_positive(value)), value, rtol=1e-12)


def test_the_evidence_is_that_of_the_dense_gp() -> None:
    model, x, y = spectral_gp(), seeded_normal(20, 2), seeded_normal(20, 1, seed=1)
    features = model.features(Measure(x))
    covariance = features @ features.mT / 0.4 + torch.eye(20, dtype=torch.float64) / 2.5
    expected = -stats.multivariate_normal(cov=covariance.detach().numpy()).logpdf(y[:, 0].numpy())
    assert model.negative_log_evidence(features, y).item() == pytest.approx(expected, rel=1e-10)


def test_predictions_are_those_of_the_dense_gp() -> None:
    model, x, y, new = (
        spectral_gp(),
        seeded_normal(20, 2),
        seeded_normal(20, 3, seed=1),
        seeded_normal(5, 2, seed=2),
    )
    known, unknown = model.features(Measure(x)), model.features(Measure(new))
    mean, variance = model.condition(known, y).predict(unknown)
    covariance = known @ known.mT / 0.4 + torch.eye(20, dtype=torch.float64) / 2.5
    cross = unknown @ known.mT / 0.4
    gain = cross @ covariance.inverse()
    left = (unknown @ unknown.mT / 0.4 - gain @ cross.mT).diagonal()
    assert torch.allclose(mean, gain @ y, atol=1e-9)
    assert torch.allclose(variance, left + 1 / 2.5, atol=1e-9)


def test_the_regression_is_that_of_this_package_in_another_form() -> None:
    model, x, y = spectral_gp(), seeded_normal(20, 2), seeded_normal(20, 1, seed=1)
    features = model.features(Measure(x)).detach()
    total = statistics(Observations(features, y, torch.zeros_like(y)))
    noise = torch.tensor([1 / 2.5], dtype=torch.float64)
    signal = torch.tensor([1 / 0.4], dtype=torch.float64)
    reference = posterior(total, noise, signal).predict(features)
    mean, variance = model.condition(features, y).predict(features)
    assert torch.allclose(mean, reference.mean, atol=1e-9)
    assert torch.allclose(variance[:, None], reference.observation_variance, atol=1e-9)
    value = model.negative_log_evidence(features, y)
    assert torch.allclose(value, negative_log_evidence(total, noise, signal), rtol=1e-10)


@pytest.mark.parametrize(("kernel", "law"), [("rbf", stats.norm), ("matern32", stats.t(3))])
def test_coordinates_of_frequencies_are_independent(kernel: KernelName, law: Any) -> None:
    draw = draw_frequencies(kernel, 4000, 2, seeded_generator()).numpy()
    for column in draw.T:
        assert stats.kstest(column, law.cdf).pvalue > 0.01
    assert abs(stats.spearmanr(*np.abs(draw.T)).statistic) < 0.05  # isotropic ones depend


def test_two_equal_spectra_are_one() -> None:
    model, x = spectral_gp(TwoSpectraGP), seeded_normal(6, 2)
    assert isinstance(model, TwoSpectraGP)
    model.other_unit_frequencies.copy_(model.unit_frequencies)
    assert torch.allclose(model.features(Measure(x)), spectral_gp().features(Measure(x)))
    with torch.no_grad():
        model.means[1] += 0.5
    frequencies = model.unit_frequencies / positive(model.raw_length_scales)
    phases = x @ frequencies.mT, x @ (frequencies + 0.5).mT
    expected = sum(torch.cat((p.cos(), p.sin()), -1) for p in phases) / math.sqrt(4 * 8)
    assert torch.allclose(model.features(Measure(x)), torch.as_tensor(expected))


def test_length_scales_start_by_the_range() -> None:
    x = torch.tensor([[0.0, 1, 3], [4, 1, 2]], dtype=torch.float64)
    expected = 0.5 * torch.tensor([4.0, 1, 1], dtype=torch.float64) * math.sqrt(3 / 0.1)
    assert torch.allclose(start_length_scales(x, 0.1), expected)
