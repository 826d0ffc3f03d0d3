"""Predictions of z, and the densities of y that follow from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import OUTPUT_WARPS, normal, random_warp, target_scaling
from builders.neighbours import spaced
from scipy.special import roots_legendre
from scipy.stats import norm, t
from torch import Tensor

from sswim.members import Prediction
from sswim.members.density import Density
from sswim.warps.output_warp import OutputMap, OutputWarpName

SCALING = target_scaling([-5.0, 0.0, 300.0], [0.1, 1.0, 20.0])
Warp = tuple[OutputWarpName, int] | None
of_every_warp = pytest.mark.parametrize("warp", OUTPUT_WARPS, ids=str)
STUDENTS: list[tuple[Warp, float]] = [
    (warp, degrees) for warp in (None, ("sinh-arcsinh", 2), ("tanh", 3)) for degrees in (2.5, 40.0)
]


def random_prediction(generator: torch.Generator, n: int, widest: float = 1.0) -> Prediction:
    """Make predictions of three standardised targets, with standard deviations up to ``widest``."""
    latent, noise = 0.5 * widest**2 * torch.rand(2, n, 3, generator=generator, dtype=torch.float64)
    return Prediction(normal(generator, n, 3), latent, latent + noise + 1e-3)


def random_density(
    warp: Warp,
    generator: torch.Generator,
    n: int = 1,
    spread: float = 1.0,
    widest: float = 1.0,
    degrees: float | None = None,
) -> Density:
    output = OutputMap()
    if warp is not None:
        with torch.no_grad():
            output = random_warp(*warp, generator, spread=spread).factors()[0]
    warped = random_prediction(generator, n, widest)
    if degrees is not None:
        warped = replace(warped, degrees=torch.full((n, 3), degrees, dtype=torch.float64))
    return Density(warped, output, SCALING)


def repeated(density: Density, n: int) -> Density:
    """Repeat the density of a single row n times."""
    return replace(density, warped=density.warped.map(lambda tensor: tensor.expand(n, -1)))


def unwarped(density: Density, deviations: Tensor) -> Tensor:
    """Return y, given deviations of z from its mean."""
    return SCALING.original_targets(density.output.inverse(density.warped.mean + deviations))


def panel_edges(density: Density) -> Tensor:
    """Return values of y that cut the density of a single row into panels; 1e-13 is outside."""
    levels = torch.special.ndtr(torch.linspace(-7.4, 7.4, 149, dtype=torch.float64))
    return torch.cat([density.quantile(level) for level in levels.tolist()])


def panel_integrals(density: Density, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ∫ f(y) p(y) dy over each panel and target, by Gauss-Legendre quadrature."""
    points, weights = (torch.from_numpy(array) for array in roots_legendre(20))
    edges = panel_edges(density)
    half, centre = 0.5 * edges.diff(dim=0), 0.5 * (edges[1:] + edges[:-1])
    y = centre[:, None] + half[:, None] * points[:, None]
    flat = y.flatten(0, 1)
    values = function(flat) * repeated(density, len(flat)).log_density(flat).exp()
    return half * (values.view_as(y) * weights[:, None]).sum(1)


@pytest.mark.parametrize(("warp", "degrees"), [*((warp, None) for warp in OUTPUT_WARPS), *STUDENTS])
def test_the_density_integrates_to_its_cumulative_and_to_one(
    warp: Warp, degrees: float | None, generator: torch.Generator
) -> None:
    spread = 1.0 if degrees is None else 0.3
    density = random_density(warp, generator, spread=spread, degrees=degrees)
    # A panel in the far tail of a Student-t spans orders of magnitude: up to a probability of 1e-5.
    inner = slice(None) if degrees is None else slice(31, -31)
    below = panel_integrals(density, torch.ones_like)[inner].cumsum(0)
    edges = panel_edges(density)
    cumulative = repeated(density, len(edges)).cdf(edges)
    expected = cumulative[1:][inner] - cumulative[:-1][inner][:1]
    assert torch.allclose(below, expected, atol=1e-6)
    assert (below[-1] > 1 - (1e-6 if degrees is None else 4e-5)).all()
    for probability in (1e-9, 1e-6, 0.05, 0.5, 0.95, 1 - 1e-6):
        reached = density.cdf(density.quantile(probability))
        assert (reached - probability).abs().max() < 1e-6 * min(probability, 1 - probability)


@of_every_warp
@pytest.mark.parametrize(
    ("spread", "widest", "tolerance"),
    [(0.3, 0.3, 1e-6), (1.0, 0.1, 1e-5), (0.5, 1.0, 1e-2)],
    ids=["moderate", "narrow", "wide"],
)
def test_moments_against_integrals(
    warp: Warp,
    spread: float,
    widest: float,
    tolerance: float,
    generator: torch.Generator,
) -> None:
    """Errors are relative to the standard deviation and to the variance.

    Quadrature is accurate for a map that is smooth over the width of the prediction, and less so
    for a wide prediction.
    """
    density = random_density(warp, generator, spread=spread, widest=widest)
    for each in (density, density.without_noise()):
        mean = panel_integrals(each, lambda y: y).sum(0)
        variance = panel_integrals(each, lambda y, mean=mean: (y - mean).square()).sum(0)  # type: ignore[misc]
        assert ((each.mean[0] - mean).abs() < tolerance * variance.sqrt()).all()
        assert torch.allclose(each.observation_variance[0], variance, rtol=tolerance)
    gaussian = density.warped
    noise = gaussian.observation_variance - gaussian.latent_variance
    alone = replace(density, warped=Prediction(gaussian.mean, noise, noise))
    assert torch.equal(density.noise_variance, alone.observation_variance)


@pytest.mark.parametrize("degrees", [None, 2.1, 50.0])
def test_the_identity_leaves_moments_as_they_are(
    degrees: float | None, generator: torch.Generator
) -> None:
    density = random_density(None, generator, n=7, degrees=degrees)
    spread, warped = SCALING.target_spread, density.warped
    assert torch.equal(density.mean, warped.mean * spread + SCALING.target_mean)
    noise = warped.observation_variance - warped.latent_variance
    for ours, variance in (
        (density.observation_variance, warped.observation_variance),
        (density.without_noise().observation_variance, warped.latent_variance),
        (density.noise_variance, noise),
    ):
        assert torch.allclose(ours, variance * spread.square(), rtol=1e-12)
    if degrees is None:
        plain = torch.distributions.Normal(density.mean, density.observation_variance.sqrt())
        y = density.mean + normal(generator, 7, 3) * spread
        assert torch.allclose(density.log_density(y), plain.log_prob(y), rtol=1e-12)
        assert torch.allclose(density.cdf(y), plain.cdf(y), rtol=1e-10)
        joint = random_covariance(density, generator)
        expected = joint * spread.square()[:, None, None]
        assert torch.allclose(density.covariance(joint), expected, rtol=1e-12)


def random_covariance(density: Density, generator: torch.Generator) -> Tensor:
    """Return a covariance of z, (T, N, N), with the observation variances on its diagonal."""
    n = len(density.warped.mean)
    root = normal(generator, 3, n, n) + 1
    joint = root @ root.mT
    scale = (density.warped.observation_variance.mT / joint.diagonal(dim1=-2, dim2=-1)).sqrt()
    return joint * scale[:, :, None] * scale[:, None, :]


@of_every_warp
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_the_joint_covariance_is_positive_and_that_of_draws(
    warp: Warp, spread: float, generator: torch.Generator
) -> None:
    density = random_density(warp, generator, n=9, spread=spread)
    joint = random_covariance(density, generator)
    ours = density.covariance(joint)
    assert torch.allclose(ours, ours.mT, rtol=1e-12)
    variance = density.observation_variance.mT
    assert torch.allclose(ours.diagonal(dim1=-2, dim2=-1), variance, rtol=1e-8)
    deviation = variance.sqrt()
    correlation = ours / deviation[:, :, None] / deviation[:, None, :]
    assert torch.linalg.eigvalsh(correlation).min() > -1e-10
    if spread < 1:
        n = 40_000
        noise = normal(generator, n, 3, 9, 1)
        draws = (torch.linalg.cholesky(joint) @ noise)[..., 0].mT  # (n, 9, 3)
        y = unwarped(density, draws)
        products = (y - y.mean(0))[:, :2].prod(1)  # of two rows
        error = (products.mean(0) - ours[:, 0, 1]).abs()
        assert (error < 4 * products.std(0) / n**0.5).all()
    joint[:, 0] = joint[:, :, 0] = 0  # the first row is known
    ours = density.covariance(joint)
    assert (ours[:, 0].abs() < 1e-10 * SCALING.target_spread[:, None].square()).all()
    assert (ours[:, 1:, 1:].diagonal(dim1=-2, dim2=-1) > 0).all()


@pytest.mark.parametrize("warp", [("sinh-arcsinh", 2), ("tanh", 3)])
@pytest.mark.parametrize(("degrees", "tolerance"), [(8.0, 0.05), (66.0, 0.01)])
def test_moments_of_a_warped_student_t_against_draws(
    warp: Warp, degrees: float, tolerance: float, generator: torch.Generator
) -> None:
    """Quadrature follows the tails of the Student-t, which few nodes see; many degrees help."""
    density = random_density(warp, generator, spread=0.3, degrees=degrees)
    n = 200_000
    chi = torch.from_numpy(np.random.default_rng(0).chisquare(degrees, size=(n, 1)) / degrees)
    scale = density.warped.observation_variance.sqrt() * density.warped.scale_ratio()
    y = unwarped(density, scale * normal(generator, n, 3) / chi.sqrt())
    deviation = density.observation_variance.sqrt()
    assert ((y.mean(0) - density.mean).abs() < 0.008 * deviation).all()
    assert torch.allclose(y.std(0), deviation[0], rtol=tolerance)


def test_student_t_predictions_are_those_of_scipy(generator: torch.Generator) -> None:
    """They have the variance that they say; with many degrees they are Gaussians."""
    latent = normal(generator, 15, 2).square()
    few = torch.stack((spaced(2.1, 5, 15), spaced(6, 60, 15)), dim=-1)
    student = Prediction(normal(generator, 15, 2), latent, latent + 0.3, few)
    targets, degrees = 3 * normal(generator, 15, 2), few.numpy()
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
    gaussian = replace(student, degrees=None)
    assert torch.equal(gaussian.stretch(levels), levels[:, None, None])
    many = replace(student, degrees=torch.full((15, 2), 1e7, dtype=torch.float64))
    assert torch.allclose(many.log_density(targets), gaussian.log_density(targets), atol=1e-5)
    assert torch.allclose(many.cdf(targets), gaussian.cdf(targets), atol=1e-6)
