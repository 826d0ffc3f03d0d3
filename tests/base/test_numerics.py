"""Quadrature, roots of functions, nodes of uncertain inputs, and Student's t distribution."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from builders.models import normal
from scipy import stats
from scipy.optimize import brentq
from scipy.special import eval_hermitenorm
from torch import Tensor

from sswim.base.numerics import (
    N_INPUT_NODES,
    N_NODES,
    hermite_nodes,
    normal_nodes,
    safeguarded_newton,
    student_t_cdf,
    student_t_log_density,
    student_t_quantiles,
    symmetric_root,
)

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


def root_of_scipy(function: Function, level: float) -> float:
    def error(x: float) -> float:
        return function(torch.tensor(x, dtype=torch.float64)).item() - level

    return float(brentq(error, LOW, HIGH, xtol=1e-14))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_newton_steps_find_the_roots_of_scipy(
    function: Function, shape: tuple[int, ...], generator: torch.Generator
) -> None:
    """Roots are close; or the function is so flat there that its values are equal to rounding."""
    places = LOW + (HIGH - LOW) * torch.rand(shape, generator=generator, dtype=torch.float64)
    wanted = function(places)

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
    roots = [root_of_scipy(function, level) for level in wanted.flatten().tolist()]
    close = (ours - torch.tensor(roots, dtype=torch.float64).reshape(shape)).abs() <= 1e-10
    scale = 1e-15 * (1 + wanted.abs())
    assert (close | ((function(ours) - wanted).abs() <= scale)).all()


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


@pytest.mark.parametrize("degree", range(2 * N_NODES))
def test_moments_of_the_standard_normal(degree: int) -> None:
    """Zero if odd, else (degree − 1)!!; relative to E|ξ|^degree by the nodes."""
    nodes = hermite_nodes()
    ours = (nodes.weights * nodes.points**degree).sum().item()
    scale = (nodes.weights * nodes.points.abs() ** degree).sum().item()
    expected = 0 if degree % 2 else math.prod(range(degree - 1, 0, -2))
    assert ours == pytest.approx(expected, abs=1e-10 * scale)


def test_the_polynomials_are_those_of_hermite_and_orthonormal_under_the_weights() -> None:
    nodes = hermite_nodes()
    assert len(nodes.points) == N_NODES == 21
    assert (nodes.weights > 0).all()
    for order in range(N_NODES):
        expected = eval_hermitenorm(order, nodes.points.numpy()) / math.sqrt(math.factorial(order))
        assert torch.allclose(nodes.polynomials[order], torch.from_numpy(expected), rtol=1e-10)
    products = (nodes.polynomials * nodes.weights) @ nodes.polynomials.mT
    assert torch.allclose(products, torch.eye(N_NODES, dtype=torch.float64), atol=1e-10)


def test_nodes_stand_for_normal_draws() -> None:
    for n_inputs in (1, 3, 20):
        nodes = normal_nodes(n_inputs)
        assert nodes.shape == (N_INPUT_NODES, n_inputs)
        assert nodes.mean(0).abs().max() < 1e-12
        assert torch.allclose(nodes.square().mean(0), torch.ones(n_inputs, dtype=torch.float64))


def test_the_root_of_a_singular_covariance() -> None:
    covariance = torch.tensor([[[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 0.0]]])
    root = symmetric_root(covariance)
    assert torch.allclose(root @ root, covariance, atol=1e-5)
    assert torch.allclose(root, root.mT, atol=1e-6)


@pytest.fixture
def degrees(generator: torch.Generator) -> Tensor:
    """Degrees of freedom, of which rows share some."""
    degrees = 2.1 + 50 * torch.rand(30, 2, generator=generator, dtype=torch.float64)
    degrees[3] = degrees[4].flip(0)
    return degrees


def test_density_and_cdf_of_student_t_are_those_of_scipy(
    degrees: Tensor, generator: torch.Generator
) -> None:
    values = 5 * normal(generator, 30, 2)
    density = student_t_log_density(values.square(), degrees)
    assert np.allclose(density, stats.t.logpdf(values, degrees), rtol=1e-12)
    cdf = student_t_cdf(values, degrees)
    assert np.allclose(cdf, stats.t.cdf(values, degrees), rtol=1e-10)
    leaves = values[:5].square().requires_grad_(), degrees[:5].requires_grad_()
    assert torch.autograd.gradcheck(student_t_log_density, leaves)


@pytest.mark.parametrize("value", [-30.0, -8.0, -1.3, -0.0, 0.0, 0.4, 8.0, 30.0])
def test_quantiles_of_student_t_have_the_probability_of_the_normal_value(
    value: float, degrees: Tensor
) -> None:
    found = student_t_quantiles(torch.tensor([value], dtype=torch.float64), degrees)[0]
    # In the lower tail, where probabilities are not rounded.
    ours = stats.t.logcdf(-found.abs(), degrees)
    assert np.allclose(ours, stats.norm.logcdf(-abs(value)), rtol=1e-8)
    assert (found.sign() == np.sign(value)).all()
