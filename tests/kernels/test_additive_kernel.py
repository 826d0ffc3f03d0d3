"""The additive kernel against the sum over all sets of inputs that it stands for."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.kernels import Kernel, correlation, draw_additive_frequencies
from sswim.kernels.additive_kernel import additive_kernel

KERNELS: tuple[Kernel, ...] = ("rbf", "matern52")


def sum_over_sets(first: Tensor, second: Tensor, strength: Tensor, kernel: Kernel) -> Tensor:
    """Return Σ_S a^|S| Π_{d ∈ S} k₁ / (1 + a)^D, for every pair of points."""
    n_inputs = first.shape[-1]
    squared = (first[..., :, None, :] - second[..., None, :, :]).square()
    single = correlation(kernel, squared)[0]
    total = torch.zeros_like(single[..., 0])
    for size in range(n_inputs + 1):
        for inputs in combinations(range(n_inputs), size):
            total = total + strength**size * single[..., list(inputs)].prod(-1)
    return total / (1 + strength) ** n_inputs


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_it_is_the_sum_over_all_sets_of_inputs(
    kernel: Kernel, dtype: torch.dtype, tolerance: float, generator: torch.Generator
) -> None:
    first, second = (normal(generator, 2, n, 4).to(dtype) for n in (3, 5))
    strength = torch.tensor([0.2, 3.0], dtype=dtype)
    found = additive_kernel(first, second, strength, kernel)
    assert found.dtype == dtype
    for entry in range(2):
        expected = sum_over_sets(first[entry], second[entry], strength[entry], kernel)
        assert torch.allclose(found[entry], expected, atol=tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients(kernel: Kernel, generator: torch.Generator) -> None:
    first, second = (normal(generator, 2, n, 3).requires_grad_() for n in (3, 4))
    strength = torch.tensor([0.2, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda a, b, strength: additive_kernel(a, b, strength, kernel), (first, second, strength)
    )
    assert torch.autograd.gradcheck(
        lambda points, strength: additive_kernel(points, points, strength, kernel),
        (first, strength),
    )


def test_strong_interaction_is_the_kernel_of_distances(generator: torch.Generator) -> None:
    points = normal(generator, 6, 3)
    squared = torch.cdist(points, points).square()
    found = additive_kernel(points, points, torch.tensor(1e9, dtype=torch.float64), "rbf")
    assert torch.allclose(found, (-0.5 * squared).exp(), atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_frequencies_have_the_kernel_as_their_mean_cosine(
    kernel: Kernel, generator: torch.Generator
) -> None:
    n = 40_000
    frequencies = draw_additive_frequencies(kernel, 0.6, n, 3, generator)
    assert frequencies.shape == (n, 3)
    points = normal(generator, 4, 3)
    differences = points[:, None] - points
    cosines = (differences @ frequencies.mT).cos()
    expected = additive_kernel(points, points, torch.tensor(0.6, dtype=torch.float64), kernel)
    error = (cosines.mean(-1) - expected).abs()
    assert (error <= 4.5 * cosines.std(-1) / n**0.5 + 1e-12).all()
