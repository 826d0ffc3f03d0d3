from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import normal
from builders.neighbours import KERNELS, SCIKIT_LEARN, row_of, spaced
from scipy import stats
from torch import Tensor

from sswim.kernels.exact_kernel import kernel_matrix
from sswim.kernels.features import Kernel
from sswim.members.neighbourhood import Neighbourhoods, neighbour_log_density

SIGNAL = torch.tensor([2.0, 0.5], dtype=torch.float64)
DEGREES = torch.tensor([2.5, 7.0], dtype=torch.float64)
NO_ROUNDING = torch.zeros(2, dtype=torch.float64)
AMPLITUDES = pytest.mark.parametrize("degrees", [None, DEGREES], ids=["global", "local"])


@pytest.fixture
def rows(generator: torch.Generator) -> Neighbourhoods:
    """Four rows of two targets, each with seven neighbours."""
    points = normal(generator, 4, 8, 3)
    return Neighbourhoods(
        points - points[:, -1:],
        None,
        3 + normal(generator, 4, 8, 2),
        0.05 + normal(generator, 4, 8, 2).square(),
        torch.ones(4, 8, dtype=torch.float64),
    )


def joint_log_density(
    covariance: np.ndarray, targets: np.ndarray, signal: float, degrees: float | None
) -> float:
    """Return log ∫ p(z | b) db, of Gaussian z, or of Student-t z with a scale of its own.

    The integral over a flat prior of the constant b is the density of contrasts of z, which no
    constant changes.
    """
    n = len(targets)
    contrasts = np.linalg.svd(np.ones((1, n)))[2][1:]  # orthonormal, and orthogonal to ones
    mean, scale = np.zeros(n - 1), signal * contrasts @ covariance @ contrasts.T
    seen = contrasts @ targets
    # b = 1ᵀz/n + …: the flat prior of b gives a factor that depends on n alone.
    factor = -0.5 * np.log(n)
    if degrees is None:
        return float(stats.multivariate_normal(mean, scale).logpdf(seen) + factor)
    return float(stats.multivariate_t(mean, scale, df=degrees).logpdf(seen) + factor)  # type: ignore[arg-type]


@AMPLITUDES
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_density_against_that_of_all_targets_together(
    kernel: Kernel, degrees: Tensor | None, rows: Neighbourhoods
) -> None:
    """A density of a row given its neighbours is that of all over that of the neighbours.

    The amplitude of a multivariate Student-t has an inverse-gamma prior of ν degrees of freedom.
    """
    ours = neighbour_log_density(rows, kernel, SIGNAL, degrees, NO_ROUNDING)
    for row in range(4):
        for target in range(2):
            covariance = SCIKIT_LEARN[kernel](1.0)(rows.points[row].numpy())
            covariance = covariance + np.diag(rows.ridge[row, :, target].numpy())
            z, signal = rows.targets[row, :, target].numpy(), SIGNAL[target].item()
            nu = None if degrees is None else degrees[target].item()
            expected = joint_log_density(covariance, z, signal, nu)
            expected -= joint_log_density(covariance[:-1, :-1], z[:-1], signal, nu)
            assert ours[row, target].item() == pytest.approx(expected, rel=1e-8)


@AMPLITUDES
def test_the_density_integrates_to_one(degrees: Tensor | None, rows: Neighbourhoods) -> None:
    rounding = torch.tensor([0.3, 0.0], dtype=torch.float64)
    values = 3 + torch.tan(spaced(-1.57, 1.57, 4001))  # dense in the middle, far in the tails
    slope = 1 + (values - 3).square()
    for row in range(4):
        alone = row_of(rows, row).map(lambda t: t.expand(4001, *t.shape[1:]).clone())
        alone.targets[:, -1] = values[:, None]
        density = neighbour_log_density(alone, "matern32", SIGNAL, degrees, rounding).exp()
        total = (density * slope[:, None]).sum(0) * (3.14 / 4000)
        assert torch.allclose(total, torch.ones(2, dtype=torch.float64), atol=2e-3)


@AMPLITUDES
def test_missing_neighbours_are_as_if_they_were_not_there(
    degrees: Tensor | None, rows: Neighbourhoods
) -> None:
    there = [0, 2, 3, 5, 7]
    fewer = rows.map(lambda tensor: tensor[:, there])
    expected = neighbour_log_density(fewer, "matern52", SIGNAL, degrees, NO_ROUNDING)
    present = torch.zeros_like(rows.present)
    present[:, there] = 1
    found = neighbour_log_density(
        replace(rows, present=present), "matern52", SIGNAL, degrees, NO_ROUNDING
    )
    assert torch.allclose(found, expected, rtol=1e-12)


@AMPLITUDES
def test_a_row_without_neighbours_has_no_density_and_finite_gradients(
    degrees: Tensor | None, rows: Neighbourhoods
) -> None:
    present = rows.present.clone()
    present[1, :-1] = 0
    leaves = [rows.points, rows.targets, rows.ridge]
    for leaf in leaves:
        leaf.requires_grad_()
    density = neighbour_log_density(
        replace(rows, present=present), "matern32", SIGNAL, degrees, NO_ROUNDING
    )
    assert (density[1] == 0).all()
    assert (density[[0, 2, 3]] != 0).all()
    for gradient in torch.autograd.grad(density.sum(), leaves):
        assert gradient.isfinite().all()
        assert (gradient[1] == 0).all()
        assert gradient[0].abs().max() > 0


@pytest.mark.parametrize("signal", [1.0, 1e-6, 1e-12, 0.0])
def test_rounding_bounds_the_density_of_equal_targets(signal: float, rows: Neighbourhoods) -> None:
    """However small the amplitude, the density is at most that of the rounding alone."""
    step = 0.1
    equal = replace(rows, targets=torch.full_like(rows.targets, 3.0).requires_grad_())
    rounding = torch.full((2,), step**2 / 12, dtype=torch.float64)
    density = neighbour_log_density(
        equal, "matern32", torch.full_like(SIGNAL, signal), DEGREES, rounding
    )
    assert density.isfinite().all()
    highest = stats.t.logpdf(0, 1e9) - 0.5 * np.log(step**2 / 12)
    assert (density <= highest + 1e-6).all()
    if signal < 1e-6:
        assert (density > highest - 0.1).all()
    (gradient,) = torch.autograd.grad(density.sum(), equal.targets)
    assert gradient.isfinite().all()


def test_degrees_bound_the_density_of_equal_targets(rows: Neighbourhoods) -> None:
    """With ν > 2 an amplitude of its own falls only to νs²/(ν + m − 1), without any rounding."""
    equal = replace(rows, targets=torch.full_like(rows.targets, 3.0))
    unrounded = neighbour_log_density(equal, "matern32", SIGNAL, DEGREES, NO_ROUNDING)
    without = neighbour_log_density(equal, "matern32", SIGNAL, None, NO_ROUNDING)
    most = 0.5 * ((DEGREES + 6) / DEGREES).log()
    assert (unrounded <= without + most + 1e-12).all()


@AMPLITUDES
@pytest.mark.parametrize("uncertain", [False, True], ids=["exact", "uncertain"])
def test_gradients(
    degrees: Tensor | None, uncertain: bool, rows: Neighbourhoods, generator: torch.Generator
) -> None:
    few = rows.map(lambda tensor: tensor[:2, -4:])
    variance = normal(generator, 2, 4, 3).square() if uncertain else None

    def density(points: Tensor, targets: Tensor, ridge: Tensor, signal: Tensor) -> Tensor:
        moved = Neighbourhoods(points, variance, targets, ridge, few.present)
        return neighbour_log_density(moved, "matern32", signal, degrees, 0.01 + NO_ROUNDING)

    leaves = (few.points, few.targets, few.ridge, SIGNAL.clone())
    assert torch.autograd.gradcheck(
        density, tuple(leaf.detach().requires_grad_() for leaf in leaves), atol=1e-6
    )


def test_gradients_of_degrees(rows: Neighbourhoods) -> None:
    assert torch.autograd.gradcheck(
        lambda degrees: neighbour_log_density(rows, "rbf", SIGNAL, degrees, NO_ROUNDING),
        DEGREES.clone().requires_grad_(),
    )


def test_the_covariance_of_a_neighbourhood(rows: Neighbourhoods) -> None:
    rows.present[0, 2] = 0
    covariance = rows.covariance("matern12")
    kernel = kernel_matrix(rows.points, None, "matern12")
    for target in range(2):
        expected = kernel[1] + rows.ridge[1, :, target].diag()
        assert torch.allclose(covariance[1, target], expected, rtol=1e-14)
    others = [0, 1, 3, 4, 5, 6, 7]  # a missing neighbour is independent of them
    assert (covariance[0, :, 2, others] == 0).all()
    assert (covariance[0, :, others, 2] == 0).all()
    assert (covariance[0, :, 2, 2] > 0).all()
