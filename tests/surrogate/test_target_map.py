"""The map of targets: in other units, bent, logarithmic; and its choice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from builders.models import normal
from builders.surrogates import bent_map, uniform
from torch import Tensor

from sswim.members import ExactRows
from sswim.surrogate import LogarithmicMap, TargetMap, choose_map, standardise
from sswim.surrogate.target_map import SMALLEST_COMPARED
from sswim.warps import OutputMap

NewMap = Callable[[torch.Generator], TargetMap]


def covariance_of(generator: torch.Generator, *shape: int) -> Tensor:
    root = 0.4 * normal(generator, *shape, shape[-1])
    return root @ root.mT + 0.01 * torch.eye(shape[-1])


def logarithmic_map(generator: torch.Generator) -> TargetMap:
    standard = standardise(3 + 2 * normal(generator, 30))
    return replace(standard, warp=LogarithmicMap.of(normal(generator, 30), -1.0, 1e3))


def plain_map(_: torch.Generator) -> TargetMap:
    return TargetMap(torch.tensor(3.0).double(), torch.tensor(0.5).double(), OutputMap())


def test_it_is_inverted_with_exact_slopes(generator: torch.Generator) -> None:
    target_map = bent_map(generator)
    targets = (3 + 2 * normal(generator, 4, 50)).requires_grad_()  # also outside the warp's range
    mapped, slope = target_map.forward(targets)
    assert torch.allclose(target_map.inverse(mapped), targets, atol=1e-10)
    assert torch.equal(mapped.flatten().argsort(), targets.flatten().argsort())
    [gradient] = torch.autograd.grad(mapped.sum(), targets)
    inside = (targets > 3 - 1.4) & (targets < 3 + 1.75)
    assert torch.allclose(slope[inside], gradient[inside])
    assert torch.autograd.gradcheck(target_map.inverse, (normal(generator, 2, 3).requires_grad_(),))


@pytest.mark.parametrize("make_map", [bent_map, logarithmic_map, plain_map])
@torch.no_grad()
def test_moments_agree_with_draws(make_map: NewMap, generator: torch.Generator) -> None:
    target_map = make_map(generator)
    mean, covariance = 0.5 * normal(generator, 2, 3), covariance_of(generator, 2, 3)
    sets = target_map.moments(mean, covariance)
    moments = target_map.moments(mean[0], covariance[0])
    for together, single in zip(sets, moments, strict=True):
        assert torch.allclose(together[0], single, atol=1e-12)
    n = 200_000
    draws = mean[0] + normal(generator, n, 3) @ torch.linalg.cholesky(covariance[0]).mT
    targets = target_map.inverse(draws)
    assert ((moments[0] - targets.mean(0)).abs() < 5 * targets.std(0) / n**0.5).all()
    centred = targets - targets.mean(0)
    products = centred[:, :, None] * centred[:, None]
    assert ((moments[1] - products.mean(0)).abs() < 5 * products.std(0) / n**0.5).all()


@torch.no_grad()
def test_other_units(generator: torch.Generator) -> None:
    target_map = bent_map(generator)
    offset, scale = torch.tensor([-4.0, 100.0], dtype=torch.float64)
    other = target_map.rescale(offset, scale)
    targets = 3 + normal(generator, 10)
    mapped = target_map.forward(targets)[0]
    assert torch.allclose(other.forward(offset + scale * targets)[0], mapped)
    assert torch.allclose(other.inverse(mapped), offset + scale * targets)


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_targets_are_standardised(scale: float, generator: torch.Generator) -> None:
    targets = scale * (3 + normal(generator, 50))
    standardised, slope = standardise(targets).forward(targets)
    assert abs(standardised.mean()) < 1e-12
    assert torch.allclose(standardised.square().mean(), torch.ones(()).double())
    assert torch.allclose(slope * targets.std(correction=0), torch.ones(()).double())
    for value in (0.0, 0.1, -1e10 / 3, 1e150):  # constant targets are centred
        constant = torch.full((7,), value, dtype=torch.float64)
        assert standardise(constant).spread == 1
        assert standardise(constant).forward(constant)[0].abs().max() <= 4e-16 * abs(value)


@pytest.mark.parametrize("direction", [1.0, -1.0])
@pytest.mark.parametrize("strength", [1.0, 1e3, 1e6])
def test_logarithmic_maps(direction: float, strength: float, generator: torch.Generator) -> None:
    targets = normal(generator, 20)
    warp = LogarithmicMap.of(targets, direction, strength)
    mapped = warp.forward(targets)[0]
    # Within the range of the targets it is the formula.
    end = targets.max() if direction > 0 else targets.min()
    expected = -direction * (strength * (end - targets).abs()).log1p() / strength
    expected = (expected - expected.mean()) / expected.std(correction=0)
    assert torch.allclose(mapped, expected, atol=1e-8)
    # It is inverted outside the range too, with exact slopes.
    wide = torch.linspace(-9, 9, 101, dtype=torch.float64).requires_grad_()
    values, log_slopes = warp.forward(wide)
    assert (values.diff() > 0).all()
    assert torch.allclose(warp.inverse(values), wide, rtol=1e-6, atol=1e-8)
    [gradient] = torch.autograd.grad(values.sum(), wide)
    inside = (wide > targets.min()) & (wide < targets.max())
    assert torch.allclose(log_slopes.exp()[inside], gradient[inside])
    leaf = values.detach().requires_grad_()
    [slopes] = torch.autograd.grad(warp.inverse(leaf).sum(), leaf)
    assert torch.allclose(slopes, (-log_slopes).exp(), rtol=1e-6)
    # Beyond the targets values grow along a line: their moments do not explode.
    far = mapped.abs().max() + torch.tensor([10.0, 20.0, 30.0]).double()
    for sign in (1, -1):
        first, second = warp.inverse(sign * far).diff()
        assert math.isclose(first, second, rel_tol=1e-5)


N_STEPS = 60


def smooth_rows(generator: torch.Generator, n_rows: int = 30) -> tuple[Tensor, Tensor]:
    """Return inputs, and a smooth function of them."""
    inputs = uniform(generator, n_rows, 2) - 0.5
    return inputs, (4 * inputs[:, 0]).sin() + (3 * inputs[:, 1]).cos()


@pytest.mark.parametrize(("sign", "known"), [(1, False), (-1, False), (1, True)])
def test_values_over_orders_of_magnitude_get_a_logarithmic_map(
    sign: int, known: bool, generator: torch.Generator
) -> None:
    inputs, smooth = smooth_rows(generator)
    targets = sign * (4 * smooth).exp()
    variance = 1e-8 * targets.square() if known else None
    warp = choose_map(ExactRows(inputs, targets, variance), N_STEPS).warp
    assert isinstance(warp, LogarithmicMap)
    assert warp.direction == -sign  # the end near zero is stretched
    assert warp.strength >= 100


def test_a_far_value_is_squeezed(generator: torch.Generator) -> None:
    inputs, targets = uniform(generator, 40, 2) - 0.5, normal(generator, 40)
    noise = choose_map(ExactRows(inputs, targets, None), N_STEPS)
    assert type(noise.warp) is OutputMap  # without far values there is nothing to squeeze
    targets[3] = -100
    target_map = choose_map(ExactRows(inputs, targets, None), N_STEPS)
    assert isinstance(target_map.warp, LogarithmicMap)
    assert target_map.warp.direction == 1
    assert torch.allclose(target_map.inverse(target_map.forward(targets)[0]), targets)


def test_smooth_few_or_constant_rows_are_only_standardised(generator: torch.Generator) -> None:
    few, values = smooth_rows(generator, SMALLEST_COMPARED - 1)
    inputs, smooth = smooth_rows(generator)
    equal = torch.full_like(smooth, 7.3)
    rounding = 1e-15 * smooth  # is no signal
    for x, y in (
        (few, (4 * values).exp()),
        (inputs, smooth),
        (inputs, equal),
        (inputs, equal + rounding),
    ):
        assert type(choose_map(ExactRows(x, y, None), N_STEPS).warp) is OutputMap
