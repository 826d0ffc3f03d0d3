from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import normal
from builders.neighbours import spaced
from scipy.stats import norm, t

from sswim.members import Prediction


def test_log_density_is_that_of_the_observation(generator: torch.Generator) -> None:
    mean, targets = normal(generator, 15, 2), normal(generator, 15, 2)
    latent = normal(generator, 15, 2).square()
    prediction = Prediction(mean, latent, latent + 0.3)
    expected = norm.logpdf(targets, mean, (latent + 0.3).sqrt())
    assert torch.allclose(prediction.log_density(targets), torch.from_numpy(expected))


def test_members_have_densities_of_their_own(generator: torch.Generator) -> None:
    mean, targets = normal(generator, 3, 15, 2), normal(generator, 15, 2)
    latent = normal(generator, 3, 15, 2).square()
    together = Prediction(mean, latent, latent + 0.3).log_density(targets)
    for member in range(3):
        alone = Prediction(mean[member], latent[member], latent[member] + 0.3)
        assert torch.equal(together[member], alone.log_density(targets))


@pytest.fixture
def student(generator: torch.Generator) -> Prediction:
    """Student-t predictions with few and with many degrees of freedom."""
    latent = normal(generator, 15, 2).square()
    degrees = torch.stack((spaced(2.1, 5, 15), spaced(6, 60, 15)), dim=-1)
    return Prediction(normal(generator, 15, 2), latent, latent + 0.3, degrees)


def test_student_t_predictions_are_those_of_scipy(
    student: Prediction, generator: torch.Generator
) -> None:
    """They have the variance that they say, whatever their degrees of freedom."""
    targets = 3 * normal(generator, 15, 2)
    assert student.degrees is not None
    degrees = student.degrees.numpy()
    scale = np.sqrt(student.observation_variance.numpy() * (degrees - 2) / degrees)
    theirs = t(degrees, student.mean.numpy(), scale)
    assert np.allclose(theirs.var(), student.observation_variance)
    assert np.allclose(student.log_density(targets), theirs.logpdf(targets.numpy()), rtol=1e-10)
    assert np.allclose(student.cdf(targets), theirs.cdf(targets.numpy()), rtol=1e-9)
    levels = torch.tensor([-6.0, -1.0, 0.0, 0.3, 2.0, 6.0], dtype=torch.float64)
    for level, stretch in zip(levels.tolist(), student.stretch(levels), strict=True):
        value = student.mean + stretch * student.observation_variance.sqrt()
        below = norm.cdf(-abs(level))
        ours = theirs.cdf(value.numpy()) if level < 0 else theirs.sf(value.numpy())
        assert np.allclose(ours, below, rtol=1e-6)


def test_many_degrees_are_a_gaussian(student: Prediction, generator: torch.Generator) -> None:
    targets = normal(generator, 15, 2)
    many = replace(student, degrees=torch.full((15, 2), 1e7, dtype=torch.float64))
    gaussian = replace(student, degrees=None)
    assert torch.allclose(many.log_density(targets), gaussian.log_density(targets), atol=1e-5)
    assert torch.allclose(many.cdf(targets), gaussian.cdf(targets), atol=1e-6)
    levels = torch.tensor([1.7, -0.2], dtype=torch.float64)
    assert torch.equal(gaussian.stretch(levels), levels[:, None, None])
    assert np.allclose(
        gaussian.cdf(targets),
        norm.cdf(targets, gaussian.mean, gaussian.observation_variance.sqrt()),
    )
