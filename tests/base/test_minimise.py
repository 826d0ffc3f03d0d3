from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from builders.models import normal
from scipy import optimize
from torch import Tensor

from sswim.base.minimise import minimise

Loss = Callable[..., Tensor]


def parameter(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def find(loss: Loss, *parameters: Tensor, max_steps: int = 100) -> int:
    """Minimise a function of some parameters; return how often it was evaluated."""
    calls = 0

    def add_gradients() -> Tensor:
        nonlocal calls
        calls += 1
        value = loss(*parameters)
        value.backward()
        return value

    minimise(parameters, add_gradients, max_steps)
    assert all(each.grad is None for each in parameters)
    assert all(each.requires_grad for each in parameters)
    return calls


def test_the_minimum_of_a_quadratic_is_found(generator: torch.Generator) -> None:
    root, centre = normal(generator, 5, 5), normal(generator, 5)
    matrix = root @ root.mT + torch.eye(5)
    at = parameter(*[0.0] * 5)
    with torch.no_grad():  # as most of the library runs
        find(lambda x: 3.0 + (x - centre) @ matrix @ (x - centre), at)
    assert torch.allclose(at, centre, atol=1e-4)


def test_the_minimum_of_a_convex_function_of_several_tensors_is_found(
    generator: torch.Generator,
) -> None:
    """A logistic regression with a number, a vector and a matrix, one of which has no part."""
    x = normal(generator, 60, 3)
    signs = (x[:, 0] + normal(generator, 60)).sign()

    def loss(level: Tensor, slopes: Tensor, matrix: Tensor, unused: Tensor) -> Tensor:
        margin = signs * (level + x @ slopes + (x @ matrix).sum(1))
        squares = sum(each.square().sum() for each in (level, slopes, matrix))
        return torch.nn.functional.softplus(-margin).sum() + 0.5 * squares

    parts = [parameter(0.5), parameter(1.0, -1.0, 0.0), normal(generator, 3, 2), parameter(7.0)]
    parts = [part.detach().squeeze().requires_grad_() for part in parts]
    start = torch.cat([part.detach().flatten() for part in parts])

    def at(place: Tensor) -> list[Tensor]:
        pieces = place.split([part.numel() for part in parts])
        return [one.view(part.shape) for one, part in zip(pieces, parts, strict=True)]

    def value(place: np.ndarray) -> float:
        return loss(*at(torch.from_numpy(place))).item()

    expected = optimize.minimize(value, start.numpy(), tol=1e-9)
    n_calls = find(loss, *parts)
    assert loss(*parts).item() == pytest.approx(expected.fun, rel=1e-8)
    found = torch.cat([part.detach().flatten() for part in parts])
    assert torch.allclose(found, torch.from_numpy(expected.x), atol=1e-4)
    assert parts[-1].item() == 7
    assert n_calls < 30


@pytest.mark.parametrize("start", [0.01, 0.5, 1.5, 10.0, 1000.0])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_loss_that_is_not_finite_somewhere_does_not_spoil_it(start: float, unit: float) -> None:
    """The logarithm has no value below zero, where the first steps lead."""
    at = parameter(start)
    find(lambda x: unit * (x - x.log()), at)
    assert at.item() == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("wall", [math.nan, math.inf])
def test_the_search_stays_before_a_wall(wall: float) -> None:
    at = parameter(0.0)
    find(lambda x: torch.where(x < 0.9, 100 * (x - 1).square(), wall).sum(), at)
    assert 0.89 < at.item() < 0.9
    both = parameter(0.5, -0.9)
    find(lambda x: (10 * x - (1 - x.square()).log()).sum(), both)
    best = (1 - math.sqrt(101)) / 10
    assert torch.allclose(both, torch.full_like(both, best), atol=1e-5)


def test_gradients_that_are_not_finite_are_turned_back_from_too() -> None:
    """Below zero there is a value, and one that is below that of the start, but no slope."""
    at = parameter(9.0, 4.0)
    find(lambda x: (torch.where(x > 0, x.sqrt(), 0.0) - 1).square().sum(), at)
    assert torch.allclose(at, torch.ones_like(at), atol=1e-3)


@pytest.mark.parametrize("loss", [lambda x: math.nan * x.sum(), lambda x: 0 * x.sum()])
def test_without_any_slope_the_parameters_stay(loss: Loss) -> None:
    at = parameter(1.0, -2.0)
    find(loss, at)
    assert at.tolist() == [1.0, -2.0]


def test_the_number_of_steps_is_bounded() -> None:
    def rosenbrock(x: Tensor) -> Tensor:
        return (100 * (x[1:] - x[:-1].square()).square() + (1 - x[:-1]).square()).sum()

    few, many = (parameter(*[-1.0] * 6) for _ in range(2))
    start = rosenbrock(few).item()
    assert find(rosenbrock, few, max_steps=3) <= 8
    assert find(rosenbrock, many, max_steps=200) > 20
    assert rosenbrock(many).item() < rosenbrock(few).item() < start
    assert torch.allclose(many, torch.ones_like(many), atol=1e-3)
