from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from builders.models import normal
from builders.neighbours import KERNELS, SCIKIT_LEARN
from sklearn.metrics.pairwise import euclidean_distances
from torch import Tensor

from sswim.kernels import (
    N_SCALES,
    Kernel,
    correlation,
    cross_kernel,
    expected_cross_kernel,
    kernel_matrix,
    mixture_scales,
    squared_distances,
)

MATERN: tuple[Kernel, ...] = ("matern12", "matern32", "matern52")


@pytest.fixture
def points(generator: torch.Generator) -> Tensor:
    """Twelve points, of which the last three are equal, and the first two nearly so."""
    points = normal(generator, 12, 3)
    points[1] = points[0] + 1e-5
    points[-2:] = points[-3]
    return points


@pytest.fixture
def variance(points: Tensor, generator: torch.Generator) -> Tensor:
    return 0.5 * normal(generator, *points.shape).square()


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_those_of_scikit_learn(kernel: Kernel, generator: torch.Generator) -> None:
    first, second = normal(generator, 15, 3), normal(generator, 9, 3)
    theirs = SCIKIT_LEARN[kernel](1.0)
    ours = cross_kernel(first, second, kernel)
    assert np.allclose(ours, theirs(first.numpy(), second.numpy()), rtol=1e-12, atol=1e-14)
    own = kernel_matrix(first, None, kernel)
    assert np.allclose(own, theirs(first.numpy()), rtol=1e-12, atol=1e-14)
    assert (own.diagonal() - 1).abs().max() < 1e-14


@pytest.mark.parametrize("kernel", KERNELS)
def test_points_of_many_neighbourhoods_at_once(
    kernel: Kernel, points: Tensor, generator: torch.Generator
) -> None:
    batch = torch.stack((points, normal(generator, *points.shape)))
    together = kernel_matrix(batch, None, kernel)
    for ours, alone in zip(together, batch, strict=True):
        assert torch.allclose(ours, kernel_matrix(alone, None, kernel), rtol=1e-14)
        assert torch.allclose(ours, cross_kernel(alone, alone, kernel), rtol=1e-7)


def test_squared_distances_are_exact_near_the_origin(generator: torch.Generator) -> None:
    first, second = normal(generator, 6, 4), normal(generator, 7, 4)
    expected = euclidean_distances(first, second) ** 2
    assert np.allclose(squared_distances(first, second), expected, rtol=1e-12)
    assert (squared_distances(first, first) >= 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_slope_is_that_of_the_kernel(kernel: Kernel) -> None:
    squared = torch.logspace(-6, 2, 30, dtype=torch.float64).requires_grad_()
    value, slope = correlation(kernel, squared)
    (expected,) = torch.autograd.grad(value.sum(), squared)
    assert torch.allclose(slope, expected, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_kernel_matrices(kernel: Kernel, generator: torch.Generator) -> None:
    points = normal(generator, 2, 5, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda p: kernel_matrix(p, None, kernel), points)
    variance = (0.3 + normal(generator, 2, 5, 3).square()).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda p, v: kernel_matrix(p, v, kernel), (points, variance), atol=1e-6
    )
    others = normal(generator, 2, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: cross_kernel(a, b, kernel), (points, others))
    with torch.no_grad():
        plain = cross_kernel(points, others, kernel)
    assert torch.allclose(plain, cross_kernel(points, others, kernel), rtol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_at_equal_points(kernel: Kernel, points: Tensor, variance: Tensor) -> None:
    """They are finite, and right where the kernel is smooth.

    Finite differences see the curvature there, which falls with the square of their step.
    """
    points.requires_grad_()
    variance[-1] = 0  # one of the equal points is known exactly
    variance.requires_grad_()
    for matrix, leaves in (
        (kernel_matrix(points, None, kernel), [points]),
        (kernel_matrix(points, variance, kernel), [points, variance]),
        (cross_kernel(points, points, kernel), [points]),
    ):
        for gradient in torch.autograd.grad(matrix.square().sum(), leaves):
            assert gradient.isfinite().all()
    if kernel != "matern12":
        assert torch.autograd.gradcheck(
            lambda p: kernel_matrix(p, None, kernel),
            points[6:].detach().requires_grad_(),
            eps=1e-7,
            atol=1e-5,
        )


def expectation(kernel: Kernel, offset: Tensor, variance: Tensor, n: int = 100_000) -> Tensor:
    """Estimate E k(‖d‖) of d ~ N(offset, variance) from pairs of draws."""
    generator = torch.Generator().manual_seed(0)
    noise = variance.sqrt() * normal(generator, n // 2, len(offset))
    draws = torch.cat((offset + noise, offset - noise))
    return correlation(kernel, draws.square().sum(-1))[0].mean()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_inputs", [1, 3])
def test_the_expected_kernel_against_draws(kernel: Kernel, n_inputs: int) -> None:
    """The RBF kernel is exact; the mixture that stands for a Matérn kernel is within 0.01."""
    stated = 0.0 if kernel == "rbf" else 0.01
    for distance, spread in product((0.0, 0.3, 1.0, 3.0, 10.0, 20.0), (0.01, 0.3, 1.0, 5.0, 100.0)):
        offset = torch.zeros(n_inputs, dtype=torch.float64)
        offset[0] = distance
        first = spread * torch.linspace(0.2, 0.7, n_inputs, dtype=torch.float64)
        second = spread * torch.linspace(0.8, 0.1, n_inputs, dtype=torch.float64)
        ours = expected_cross_kernel(
            offset[None], first[None], 0 * offset[None], second[None], kernel
        ).item()
        expected = expectation(kernel, offset, first + second).item()
        assert abs(ours - expected) < stated + 0.004
        assert 0 <= ours <= 1
        assert expected < 0.01 or abs(np.log(ours / expected)) < 0.3


@pytest.mark.parametrize("kernel", KERNELS)
def test_points_without_variances_have_the_kernel_itself(kernel: Kernel, points: Tensor) -> None:
    zero, other = torch.zeros_like(points), 3 * points[:4]
    ours = expected_cross_kernel(points, zero, other, zero[:4], kernel)
    # The product in squared distances rounds more than differences do.
    assert torch.allclose(ours, cross_kernel(points, other, kernel), rtol=1e-6, atol=1e-12)
    matrix = kernel_matrix(points, zero, kernel)
    assert torch.allclose(matrix, kernel_matrix(points, None, kernel), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_point_is_where_it_is(kernel: Kernel, points: Tensor, variance: Tensor) -> None:
    """An uncertain point is equal to itself, but not to another with the same mean."""
    matrix = kernel_matrix(points, variance, kernel)
    assert torch.equal(matrix.diagonal(), torch.ones(12, dtype=torch.float64))
    assert matrix[-1, -2] < 1
    assert torch.allclose(matrix, matrix.mT, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
def test_expected_kernels_are_covariances(
    kernel: Kernel, spread: float, generator: torch.Generator
) -> None:
    """They are positive definite with the ridge that the error of the mixture needs."""
    points = 3 * normal(generator, 60, 2)
    variance = spread * torch.rand(60, 2, generator=generator, dtype=torch.float64)
    values = torch.linalg.eigvalsh(kernel_matrix(points, variance, kernel))
    assert values.min() > (-1e-12 if kernel == "rbf" else -0.02)


@pytest.mark.parametrize("kernel", MATERN)
def test_scales_of_the_mixture_are_equally_likely(kernel: Kernel) -> None:
    """A Matérn kernel is the mean of RBF kernels with these scales."""
    scales = torch.tensor(mixture_scales(kernel), dtype=torch.float64)
    assert len(scales) == N_SCALES
    squared = torch.linspace(0, 9, 40, dtype=torch.float64)
    mixture = (-0.5 * squared[:, None] * scales).exp().mean(-1)
    assert torch.allclose(mixture, correlation(kernel, squared)[0], atol=0.03)
