from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from torch import Tensor

from sswim.base.numerics import safeguarded_newton

LOW, HIGH = -8.0, 8.0
SHAPES: list[tuple[int, ...]] = [(), (1,), (7,), (3, 5), (2, 3, 4)]
Function = Callable[[Tensor], Tensor]


def cubic(x: Tensor) -> Tensor:
    return x**3 + 0.1 * x


def flat_then_steep(x: Tensor) -> Tensor:
    return (2 * x).exp()


def steep_step(x: Tensor) -> Tensor:
    """Newton steps alone jump back and forth across the step."""
    return 0.01 * x + (50 * x).tanh()


def flat_in_the_middle(x: Tensor) -> Tensor:
    """The slope is zero at one point."""
    return (x - 1) ** 3


FUNCTIONS: list[Function] = [cubic, flat_then_steep, steep_step, flat_in_the_middle, torch.atan]


def levels(function: Function, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Values that the function takes within the bracket."""
    places = LOW + (HIGH - LOW) * torch.rand(shape, generator=generator, dtype=torch.float64)
    return function(places)


def roots_of_scipy(function: Function, wanted: Tensor) -> Tensor:
    def error(x: float, level: float) -> float:
        return function(torch.tensor(x, dtype=torch.float64)).item() - level

    found = [
        brentq(error, LOW, HIGH, args=(level,), xtol=1e-14) for level in wanted.flatten().tolist()
    ]
    return torch.from_numpy(np.array(found)).reshape(wanted.shape)


def assert_same_roots(function: Function, ours: Tensor, theirs: Tensor, wanted: Tensor) -> None:
    """Roots are close; or the function is so flat there that its values are equal to rounding."""
    assert ours.shape == theirs.shape
    close = (ours - theirs).abs() <= 1e-10
    scale = 1e-15 * (1 + wanted.abs())
    assert (close | ((function(ours) - wanted).abs() <= scale)).all()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_newton_steps_find_the_roots_of_scipy(
    function: Function, shape: tuple[int, ...], generator: torch.Generator
) -> None:
    wanted = levels(function, shape, generator)

    def error_and_step(x: Tensor) -> tuple[Tensor, Tensor]:
        leaf = x.clone().requires_grad_()
        values = function(leaf)
        (slope,) = torch.autograd.grad(values.sum(), leaf)
        error = values.detach() - wanted
        return error, error / slope

    ours = safeguarded_newton(
        error_and_step,
        torch.zeros_like(wanted),
        torch.full_like(wanted, LOW),
        torch.full_like(wanted, HIGH),
        lambda x: 1e-14 * (1 + x.abs()),
    )
    assert_same_roots(function, ours, roots_of_scipy(function, wanted), wanted)


def test_every_entry_has_its_own_bracket() -> None:
    low = torch.tensor([0.0, -10.0, 3.0], dtype=torch.float64)
    high = torch.tensor([2.0, 0.0, 3.0], dtype=torch.float64)
    wanted = torch.tensor([1.0, -5.0, 7.0], dtype=torch.float64)
    roots = safeguarded_newton(
        lambda x: (x - wanted, 3 * (x - wanted)), high, low, high, lambda x: 1e-15 * (1 + x.abs())
    )
    # The last bracket is a point, and a root outside a bracket is moved to its end.
    assert torch.allclose(roots, torch.tensor([1.0, -5.0, 3.0], dtype=torch.float64), atol=1e-14)


def test_newton_steps_stay_within_the_bracket() -> None:
    """A step from the far flat end of arctan would leave it by many orders of magnitude."""
    seen: list[float] = []

    def error_and_step(x: Tensor) -> tuple[Tensor, Tensor]:
        seen.append(x.item())
        error = x.atan()
        return error, error * (1 + x.square())

    start, low, high = (torch.tensor(value, dtype=torch.float64) for value in (90.0, -100.0, 110.0))
    root = safeguarded_newton(error_and_step, start, low, high, lambda x: 1e-14 * (1 + x.abs()))
    assert abs(root.item()) < 1e-13
    assert all(-100 <= value <= 110 for value in seen)
    assert len(seen) < 60
