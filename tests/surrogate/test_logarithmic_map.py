from __future__ import annotations

import math

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.surrogate.target_map import LogarithmicMap

DIRECTIONS = [1.0, -1.0]
STRENGTHS = [1.0, 1e3, 1e6]

each_map = pytest.mark.parametrize(
    ("direction", "strength"),
    [(direction, strength) for direction in DIRECTIONS for strength in STRENGTHS],
)


def some_targets(generator: torch.Generator) -> Tensor:
    return normal(generator, 20)


@each_map
def test_targets_are_standardised(
    direction: float, strength: float, generator: torch.Generator
) -> None:
    targets = some_targets(generator)
    warped = LogarithmicMap.of(targets, direction, strength).forward(targets)[0]
    assert abs(warped.mean()) < 1e-8
    assert abs(warped.std(correction=0) - 1) < 1e-8
    assert torch.equal(warped.argsort(), targets.argsort())


@each_map
def test_it_is_the_formula_within_the_range(
    direction: float, strength: float, generator: torch.Generator
) -> None:
    targets = some_targets(generator)
    found = LogarithmicMap.of(targets, direction, strength)
    warped = found.forward(targets)[0]
    end = targets.max() if direction > 0 else targets.min()
    lengths = torch.tensor(
        [math.log1p(strength * abs(float(end - each))) / strength for each in targets],
        dtype=torch.float64,
    )
    expected = -direction * lengths
    expected = (expected - expected.mean()) / expected.std(correction=0)
    assert torch.allclose(warped, expected, atol=1e-8)


@each_map
def test_it_is_inverted_outside_the_range_too(
    direction: float, strength: float, generator: torch.Generator
) -> None:
    found = LogarithmicMap.of(some_targets(generator), direction, strength)
    targets = torch.linspace(-9, 9, 101, dtype=torch.float64)
    warped, log_slopes = found.forward(targets)
    assert (warped.diff() > 0).all()
    assert log_slopes.isfinite().all()
    assert torch.allclose(found.inverse(warped), targets, rtol=1e-6, atol=1e-8)


@each_map
def test_slopes_are_exact(direction: float, strength: float, generator: torch.Generator) -> None:
    found = LogarithmicMap.of(some_targets(generator), direction, strength)
    targets = torch.linspace(-5, 5, 40, dtype=torch.float64).requires_grad_()
    warped, log_slopes = found.forward(targets)
    [gradient] = torch.autograd.grad(warped.sum(), targets)
    inside = (targets > found.inverse(warped.min())) & (targets < found.inverse(warped.max()))
    assert torch.allclose(log_slopes.exp()[inside], gradient[inside])
    values = warped.detach().requires_grad_()
    [slopes] = torch.autograd.grad(found.inverse(values).sum(), values)
    assert torch.allclose(slopes, (-log_slopes).exp(), rtol=1e-6)


@each_map
def test_far_values_stay_moderate(
    direction: float, strength: float, generator: torch.Generator
) -> None:
    """Beyond the targets, values grow along a line: their moments do not explode."""
    targets = some_targets(generator)
    found = LogarithmicMap.of(targets, direction, strength)
    far = found.forward(targets)[0].abs().max() + torch.tensor([10.0, 20.0, 30.0]).double()
    for sign in (1, -1):
        steps = found.inverse(sign * far).diff()
        assert torch.allclose(steps[0], steps[1])
