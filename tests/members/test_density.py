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
of_every_warp = pytest.mark.parametrize(("kind", "n_terms"), OUTPUT_WARPS)


def random_prediction(generator: torch.Generator, n: int, widest: float = 1.0) -> Prediction:
    """Make predictions of three standardised targets, with standard deviations up to ``widest``."""
    latent, noise = 0.5 * widest**2 * torch.rand(2, n, 3, generator=generator, dtype=torch.float64)
    return Prediction(normal(generator, n, 3), latent, latent + noise + 1e-3)


def random_density(
    kind: OutputWarpName,
    n_terms: int,
    generator: torch.Generator,
    n: int = 1,
    spread: float = 1.0,
    widest: float = 1.0,
) -> Density:
    with torch.no_grad():
        output = random_warp(kind, n_terms, generator, spread=spread).factors()[0]
    return Density(random_prediction(generator, n, widest), output, SCALING)


def repeated(density: Density, n: int) -> Density:
    """Repeat the density of a single row n times."""
    return replace(density, warped=density.warped.map(lambda tensor: tensor.expand(n, -1)))


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


@of_every_warp
def test_the_density_integrates_to_its_cumulative_and_to_one(
    kind: OutputWarpName, n_terms: int, generator: torch.Generator
) -> None:
    density = random_density(kind, n_terms, generator)
    below = panel_integrals(density, torch.ones_like).cumsum(0)
    assert torch.allclose(below[-1], torch.ones(3, dtype=torch.float64), atol=1e-6)
    edges = panel_edges(density)[1:]
    cumulative = repeated(density, len(edges)).cdf(edges)
    assert torch.allclose(below, cumulative, atol=1e-6)


@of_every_warp
def test_the_log_density_is_that_of_the_cumulatives_slope_and_quantiles_invert_it(
    kind: OutputWarpName, n_terms: int, generator: torch.Generator
) -> None:
    density = random_density(kind, n_terms, generator, n=50)
    y = density.quantile(0.3).requires_grad_()
    (slope,) = torch.autograd.grad(density.cdf(y).sum(), y)
    assert torch.allclose(density.log_density(y), slope.log(), rtol=1e-9, atol=1e-9)
    for probability in (1e-6, 0.05, 0.5, 0.95, 1 - 1e-6):
        reached = density.cdf(density.quantile(probability))
        assert (reached - probability).abs().max() < 1e-8 * min(probability, 1 - probability)


@of_every_warp
@pytest.mark.parametrize(
    ("spread", "widest", "tolerance"),
    [(0.3, 0.3, 1e-6), (1.0, 0.1, 1e-5), (0.5, 1.0, 1e-2)],
    ids=["moderate", "narrow", "wide"],
)
def test_moments_against_integrals(
    kind: OutputWarpName,
    n_terms: int,
    spread: float,
    widest: float,
    tolerance: float,
    generator: torch.Generator,
) -> None:
    """Errors are relative to the standard deviation and to the variance.

    Quadrature is accurate for a map that is smooth over the width of the prediction, and less so
    for a wide prediction.
    """
    density = random_density(kind, n_terms, generator, spread=spread, widest=widest)
    mean = panel_integrals(density, lambda y: y).sum(0)
    variance = panel_integrals(density, lambda y: (y - mean).square()).sum(0)
    assert ((density.mean[0] - mean).abs() < tolerance * variance.sqrt()).all()
    assert torch.allclose(density.observation_variance[0], variance, rtol=tolerance)


@of_every_warp
def test_variances_of_the_function_and_of_the_noise_are_those_of_its_own_gaussian(
    kind: OutputWarpName, n_terms: int, generator: torch.Generator
) -> None:
    density = random_density(kind, n_terms, generator, n=7, spread=0.3)
    gaussian = density.warped
    noise = gaussian.observation_variance - gaussian.latent_variance
    for ours, variance in (
        (density.without_noise().observation_variance, gaussian.latent_variance),
        (density.noise_variance, noise),
    ):
        alone = replace(density, warped=Prediction(gaussian.mean, variance, variance))
        assert torch.equal(ours, alone.observation_variance)
        assert (ours < density.observation_variance).all()


def test_the_identity_is_the_plain_gaussian(generator: torch.Generator) -> None:
    gaussian = random_prediction(generator, 7)
    density = Density(gaussian, OutputMap(), SCALING)
    spread = SCALING.target_spread
    assert torch.equal(density.mean, gaussian.mean * spread + SCALING.target_mean)
    squared = spread.square()
    assert torch.equal(density.observation_variance, gaussian.observation_variance * squared)
    function = density.without_noise()
    assert torch.equal(function.mean, density.mean)
    assert torch.equal(function.observation_variance, gaussian.latent_variance * squared)
    noise = gaussian.observation_variance - gaussian.latent_variance
    assert torch.equal(density.noise_variance, noise * squared)
    normal_of_y = torch.distributions.Normal(density.mean, density.observation_variance.sqrt())
    y = density.mean + normal(generator, 7, 3) * spread
    assert torch.allclose(density.log_density(y), normal_of_y.log_prob(y), rtol=1e-12)
    assert torch.allclose(density.cdf(y), normal_of_y.cdf(y), rtol=1e-10)
    for probability in (0.01, 0.5, 0.9):
        expected = normal_of_y.icdf(torch.tensor(probability, dtype=torch.float64))
        assert torch.allclose(density.quantile(probability), expected, rtol=1e-12)
    joint = random_covariance(density, generator)
    assert torch.allclose(density.covariance(joint), joint * squared[:, None, None], rtol=1e-12)


def random_covariance(density: Density, generator: torch.Generator) -> Tensor:
    """Return a covariance of z, (T, N, N), with the observation variances on its diagonal."""
    n = len(density.warped.mean)
    root = normal(generator, 3, n, n) + 1
    joint = root @ root.mT
    scale = (density.warped.observation_variance.mT / joint.diagonal(dim1=-2, dim2=-1)).sqrt()
    return joint * scale[:, :, None] * scale[:, None, :]


@of_every_warp
def test_the_joint_covariance_against_draws(
    kind: OutputWarpName, n_terms: int, generator: torch.Generator
) -> None:
    density = random_density(kind, n_terms, generator, n=2, spread=0.3)
    joint = random_covariance(density, generator)
    n = 100_000
    noise = normal(generator, n, 3, 2, 1)
    draws = (torch.linalg.cholesky(joint) @ noise)[..., 0].mT  # (n, 2, 3)
    y = density.unwarp(density.warped.mean + draws)
    products = (y - y.mean(0)).prod(1)  # of the two rows
    standard_error = products.std(0) / n**0.5
    ours = density.covariance(joint)
    assert ours.shape == (3, 2, 2)
    assert ((products.mean(0) - ours[:, 0, 1]).abs() < 4 * standard_error).all()
    assert torch.allclose(ours, ours.mT, rtol=1e-12)


@of_every_warp
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_the_joint_covariance_is_positive_with_the_variances_on_its_diagonal(
    kind: OutputWarpName, n_terms: int, spread: float, generator: torch.Generator
) -> None:
    density = random_density(kind, n_terms, generator, n=9, spread=spread)
    joint = random_covariance(density, generator)
    ours = density.covariance(joint)
    variance = density.observation_variance.mT
    assert torch.allclose(ours.diagonal(dim1=-2, dim2=-1), variance, rtol=1e-8)
    deviation = variance.sqrt()
    correlation = ours / deviation[:, :, None] / deviation[:, None, :]
    assert torch.linalg.eigvalsh(correlation).min() > -1e-10
    joint[:, 0] = joint[:, :, 0] = 0  # the first row is known
    ours = density.covariance(joint)
    assert (ours[:, 0].abs() < 1e-10 * SCALING.target_spread[:, None].square()).all()
    assert (ours[:, 1:, 1:].diagonal(dim1=-2, dim2=-1) > 0).all()


def student_density(
    output: OutputMap, generator: torch.Generator, degrees: float, widest: float = 1.0
) -> Density:
    """A Student-t density of a single row."""
    gaussian = random_prediction(generator, 1, widest)
    student = replace(gaussian, degrees=torch.full((1, 3), degrees, dtype=torch.float64))
    return Density(student, output, SCALING)


STUDENTS: list[tuple[OutputWarpName, int]] = [("none", 1), ("sinh-arcsinh", 2), ("tanh", 3)]


def make_map(kind: OutputWarpName, n_terms: int, generator: torch.Generator) -> OutputMap:
    with torch.no_grad():
        if kind == "none":
            return OutputMap()
        return random_warp(kind, n_terms, generator, spread=0.3).factors()[0]


@pytest.mark.parametrize(("kind", "n_terms"), STUDENTS)
@pytest.mark.parametrize("degrees", [2.5, 40.0])
def test_a_student_t_density_integrates_to_its_cumulative_and_to_one(
    kind: OutputWarpName, n_terms: int, degrees: float, generator: torch.Generator
) -> None:
    density = student_density(make_map(kind, n_terms, generator), generator, degrees)
    # A panel in the far tail spans orders of magnitude: up to a probability of 1e-5.
    inner = slice(31, -31)
    below = panel_integrals(density, torch.ones_like)[inner].cumsum(0)
    cumulative = torch.cat([density.cdf(edge[None]) for edge in panel_edges(density)])
    expected = cumulative[1:][inner] - cumulative[:-1][inner][:1]
    assert torch.allclose(below, expected, atol=1e-6)
    assert (below[-1] > 1 - 4e-5).all()
    for probability in (1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-6):
        reached = density.cdf(density.quantile(probability))
        assert torch.allclose(reached, torch.full_like(reached, probability), rtol=1e-6)


@pytest.mark.parametrize("degrees", [2.1, 3.0, 50.0])
def test_moments_of_a_student_t_without_a_warp_are_exact(
    degrees: float, generator: torch.Generator
) -> None:
    density = student_density(OutputMap(), generator, degrees)
    spread = SCALING.target_spread
    assert torch.allclose(density.mean, SCALING.original_targets(density.warped.mean))
    expected = density.warped.observation_variance * spread.square()
    assert torch.allclose(density.observation_variance, expected, rtol=1e-12)
    latent = density.warped.latent_variance * spread.square()
    assert torch.allclose(density.without_noise().observation_variance, latent, rtol=1e-12)


@pytest.mark.parametrize(("kind", "n_terms"), STUDENTS[1:])
@pytest.mark.parametrize(("degrees", "tolerance"), [(8.0, 0.05), (66.0, 0.01)])
def test_moments_of_a_warped_student_t_against_draws(
    kind: OutputWarpName,
    n_terms: int,
    degrees: float,
    tolerance: float,
    generator: torch.Generator,
) -> None:
    """Quadrature follows the tails of the Student-t, which few nodes see; many degrees help."""
    density = student_density(make_map(kind, n_terms, generator), generator, degrees)
    n = 200_000
    chi = torch.from_numpy(np.random.default_rng(0).chisquare(degrees, size=(n, 1)) / degrees)
    scale = density.warped.observation_variance.sqrt() * density.warped.scale_ratio()
    y = density.unwarp(density.warped.mean + scale * normal(generator, n, 3) / chi.sqrt())
    deviation = density.observation_variance.sqrt()
    assert ((y.mean(0) - density.mean).abs() < 0.008 * deviation).all()
    assert torch.allclose(y.std(0), deviation[0], rtol=tolerance)


@pytest.fixture
def student(generator: torch.Generator) -> Prediction:
    """Student-t predictions of two targets, with few and with many degrees of freedom."""
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


def test_gaussian_predictions_are_those_of_scipy_and_of_many_degrees(
    student: Prediction, generator: torch.Generator
) -> None:
    targets = normal(generator, 15, 2)
    gaussian = replace(student, degrees=None)
    theirs = norm(gaussian.mean.numpy(), gaussian.observation_variance.sqrt().numpy())
    assert np.allclose(gaussian.log_density(targets), theirs.logpdf(targets.numpy()))
    assert np.allclose(gaussian.cdf(targets), theirs.cdf(targets.numpy()))
    levels = torch.tensor([1.7, -0.2], dtype=torch.float64)
    assert torch.equal(gaussian.stretch(levels), levels[:, None, None])
    many = replace(student, degrees=torch.full((15, 2), 1e7, dtype=torch.float64))
    assert torch.allclose(many.log_density(targets), gaussian.log_density(targets), atol=1e-5)
    assert torch.allclose(many.cdf(targets), gaussian.cdf(targets), atol=1e-6)
