from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from builders.models import normal
from builders.surrogates import bent_map
from torch import Tensor

from sswim.surrogate.target_map import LogarithmicMap, TargetMap, standardise
from sswim.warps.output_warp import OutputMap


def covariance_of(generator: torch.Generator, *shape: int) -> Tensor:
    root = 0.4 * normal(generator, *shape, shape[-1])
    return root @ root.mT + 0.01 * torch.eye(shape[-1])


@torch.no_grad()
def test_it_is_inverted(generator: torch.Generator) -> None:
    target_map = bent_map(generator)
    targets = 3 + 2 * normal(generator, 4, 50)  # also outside the range of the warp
    warped, slope = target_map.forward(targets)
    assert warped.shape == slope.shape == (4, 50)
    assert torch.allclose(target_map.inverse(warped), targets, atol=1e-10)
    assert torch.equal(warped.flatten().argsort(), targets.flatten().argsort())


def test_slopes_are_exact(generator: torch.Generator) -> None:
    target_map = bent_map(generator)
    targets = (3 + normal(generator, 30)).requires_grad_()
    warped, slope = target_map.forward(targets)
    [gradient] = torch.autograd.grad(warped.sum(), targets)
    inside = (targets > 3 - 1.4) & (targets < 3 + 1.75)
    assert torch.allclose(slope[inside], gradient[inside])
    assert torch.autograd.gradcheck(target_map.inverse, (normal(generator, 2, 3).requires_grad_(),))


def logarithmic_map(generator: torch.Generator) -> TargetMap:
    standard = standardise(3 + 2 * normal(generator, 30))
    return replace(standard, warp=LogarithmicMap.of(normal(generator, 30), -1.0, 1e3))


@pytest.mark.parametrize("make_map", [bent_map, logarithmic_map])
@torch.no_grad()
def test_moments_agree_with_draws(
    make_map: Callable[[torch.Generator], TargetMap], generator: torch.Generator
) -> None:
    target_map = make_map(generator)
    mean, covariance = 0.5 * normal(generator, 3), covariance_of(generator, 3)
    n = 200_000
    draws = mean + normal(generator, n, 3) @ torch.linalg.cholesky(covariance).mT
    targets = target_map.inverse(draws)
    found_mean, found_covariance = target_map.moments(mean, covariance)
    assert ((found_mean - targets.mean(0)).abs() < 5 * targets.std(0) / n**0.5).all()
    centred = targets - targets.mean(0)
    products = centred[:, :, None] * centred[:, None]
    error = (found_covariance - products.mean(0)).abs()
    assert (error < 5 * products.std(0) / n**0.5).all()


@torch.no_grad()
def test_moments_without_a_warp_are_plain(generator: torch.Generator) -> None:
    target_map = TargetMap(torch.tensor(3.0).double(), torch.tensor(0.5).double(), OutputMap())
    mean, covariance = normal(generator, 2, 3), covariance_of(generator, 2, 3)
    found = target_map.moments(mean, covariance)
    assert torch.allclose(found[0], 3 + 0.5 * mean)
    assert torch.allclose(found[1], 0.25 * covariance)


@torch.no_grad()
def test_moments_of_sets_equal_a_loop(generator: torch.Generator) -> None:
    target_map = bent_map(generator)
    mean, covariance = normal(generator, 2, 3), covariance_of(generator, 2, 3)
    found = target_map.moments(mean, covariance)
    for entry in range(2):
        single = target_map.moments(mean[entry], covariance[entry])
        for ours, theirs in zip(found, single, strict=True):
            assert torch.allclose(ours[entry], theirs, atol=1e-12)


@torch.no_grad()
def test_other_units(generator: torch.Generator) -> None:
    target_map = bent_map(generator)
    offset, scale = torch.tensor([-4.0, 100.0], dtype=torch.float64)
    other = target_map.rescale(offset, scale)
    targets = 3 + normal(generator, 10)
    assert torch.allclose(
        other.forward(offset + scale * targets)[0], target_map.forward(targets)[0]
    )
    warped = normal(generator, 10)
    expected = offset + scale * target_map.inverse(warped)
    assert torch.allclose(other.inverse(warped), expected)


@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12, 1e-150, 1e150])
def test_targets_are_standardised(scale: float, generator: torch.Generator) -> None:
    targets = scale * (3 + normal(generator, 50))
    standardised, slope = standardise(targets).forward(targets)
    assert abs(standardised.mean()) < 1e-12
    assert torch.allclose(standardised.square().mean(), torch.ones(()).double())
    assert torch.allclose(slope * targets.std(correction=0), torch.ones(()).double())


@pytest.mark.parametrize("value", [0.0, 0.1, -1e10 / 3, 1e150])
def test_constant_targets_are_centred(value: float) -> None:
    targets = torch.full((7,), value, dtype=torch.float64)
    target_map = standardise(targets)
    assert target_map.spread == 1
    assert target_map.forward(targets)[0].abs().max() <= 4e-16 * abs(value)
