"""Neighbours of points, and the density of a row given its neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import normal
from builders.neighbours import KERNELS, SCIKIT_LEARN, row_of, spaced
from scipy import stats
from torch import Tensor

from sswim.base.cholesky import FactorisationError
from sswim.kernels import Kernel
from sswim.members.neighbourhood import (
    Neighbourhoods,
    NeighbourIndex,
    local_numbers,
    neighbour_log_density,
    thinned,
)

SIGNAL = torch.tensor([2.0, 0.5], dtype=torch.float64)
DEGREES = torch.tensor([2.5, 7.0], dtype=torch.float64)
NO_ROUNDING = torch.zeros(2, dtype=torch.float64)
of_both_amplitudes = pytest.mark.parametrize("degrees", [None, DEGREES], ids=["global", "local"])


def nearest(points: Tensor, queries: Tensor, k: int) -> Tensor:
    return torch.cdist(queries, points).topk(k, largest=False).indices


def neighbours(points: Tensor, queries: Tensor, k: int) -> Tensor:
    return NeighbourIndex(points, thinned(points, 16)).neighbours(queries, k)


@pytest.mark.parametrize("n_inputs", [1, 2, 3])
def test_near_and_far_neighbours_of_a_map_against_all_distances(
    n_inputs: int, generator: torch.Generator
) -> None:
    points, queries = normal(generator, 400, n_inputs), normal(generator, 30, n_inputs)
    found = neighbours(points, queries, 20)
    far = thinned(points, 16).nonzero()[:, 0]
    near = nearest(points, queries, 10)
    beyond = far[nearest(points[far], queries, 10)]
    assert found.shape == (30, 20)
    assert torch.equal(found[:, ::2], near)  # in turn, the nearest first
    again = (beyond[:, :, None] == near[:, None]).any(-1)
    assert torch.equal(found[:, 1::2], torch.where(again, -1, beyond))


@pytest.mark.parametrize("n_inputs", [2, 20], ids=["map", "many inputs"])
def test_neighbours_are_the_nearest_where_inputs_are_many_or_rows_are_few(
    n_inputs: int, generator: torch.Generator
) -> None:
    points, queries = normal(generator, 400, n_inputs), normal(generator, 30, n_inputs)
    if n_inputs == 20:
        assert torch.equal(neighbours(points, queries, 20), nearest(points, queries, 20))
    for k in (9, 10, 1000):
        assert torch.equal(neighbours(points[:9], queries, k), nearest(points[:9], queries, 9))
    for k in (1, 8):  # of which none or one can be far
        found = neighbours(points[:12], points[:5], k)
        assert found.shape == (5, k)
        assert torch.equal(found[:, 0], torch.arange(5))


def test_far_rows_are_one_in_n_whatever_the_order_of_rows(generator: torch.Generator) -> None:
    many = normal(generator, 100_000, 1)
    for divisor in (1, 2, 16):
        share = thinned(many, divisor).double().mean().item()
        assert share == pytest.approx(1 / divisor, abs=4 / 100_000**0.5)
    points = normal(generator, 400, 2)
    order = torch.randperm(400, generator=generator)
    assert torch.equal(thinned(points[order], 16), thinned(points, 16)[order])
    shuffled = neighbours(points[order], points[:20], 12)
    found = torch.where(shuffled < 0, -1, order[shuffled])
    assert torch.equal(found, neighbours(points, points[:20], 12))


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


@of_both_amplitudes
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("missing", [[], [1, 4, 6]], ids=["all", "some missing"])
def test_the_density_against_that_of_all_targets_together(
    kernel: Kernel, degrees: Tensor | None, missing: list[int], rows: Neighbourhoods
) -> None:
    """A density of a row given its neighbours is that of all over that of the neighbours.

    The amplitude of a multivariate Student-t has an inverse-gamma prior of ν degrees of freedom.
    """
    rows.present[:, missing] = 0
    there = rows.present[0].nonzero()[:, 0]
    ours = neighbour_log_density(rows, kernel, SIGNAL, degrees, NO_ROUNDING)
    for row, target in np.ndindex(4, 2):
        covariance = SCIKIT_LEARN[kernel](1.0)(rows.points[row, there].numpy())
        covariance = covariance + np.diag(rows.ridge[row, there, target].numpy())
        z, signal = rows.targets[row, there, target].numpy(), SIGNAL[target].item()
        nu = None if degrees is None else degrees[target].item()
        expected = joint_log_density(covariance, z, signal, nu)
        expected -= joint_log_density(covariance[:-1, :-1], z[:-1], signal, nu)
        assert ours[row, target].item() == pytest.approx(expected, rel=1e-8)


@of_both_amplitudes
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


@pytest.mark.parametrize("signal", [1.0, 1e-6, 1e-12, 0.0])
def test_rounding_bounds_the_density_of_equal_targets(signal: float, rows: Neighbourhoods) -> None:
    """However small the amplitude, the density is at most that of the rounding alone."""
    step = 0.1
    equal = replace(rows, targets=torch.full_like(rows.targets, 3.0).requires_grad_())
    rounding = torch.full((2,), step**2 / 12, dtype=torch.float64)
    signals = torch.full_like(SIGNAL, signal)
    density = neighbour_log_density(equal, "matern32", signals, DEGREES, rounding)
    assert density.isfinite().all()
    highest = stats.t.logpdf(0, 1e9) - 0.5 * np.log(step**2 / 12)
    assert (density <= highest + 1e-6).all()
    if signal < 1e-6:
        assert (density > highest - 0.1).all()
    (gradient,) = torch.autograd.grad(density.sum(), equal.targets)
    assert gradient.isfinite().all()


def test_a_covariance_that_is_not_one_is_refused(rows: Neighbourhoods) -> None:
    covariance = -torch.eye(8, dtype=torch.float64).expand(4, 2, 8, 8)
    with pytest.raises(FactorisationError, match="covariance of a neighbourhood"):
        local_numbers(covariance, rows.targets.mT, torch.ones_like(rows.targets.mT))
