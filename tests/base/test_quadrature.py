from __future__ import annotations

import math

import pytest
import torch
from scipy.special import eval_hermitenorm

from sswim.base.numerics import N_NODES, hermite_nodes


@pytest.mark.parametrize("degree", range(2 * N_NODES))
def test_moments_of_the_standard_normal(degree: int) -> None:
    """Zero if odd, else (degree − 1)!!; relative to E|ξ|^degree by the nodes."""
    nodes = hermite_nodes()
    ours = (nodes.weights * nodes.points**degree).sum().item()
    scale = (nodes.weights * nodes.points.abs() ** degree).sum().item()
    expected = 0 if degree % 2 else math.prod(range(degree - 1, 0, -2))
    assert ours == pytest.approx(expected, abs=1e-10 * scale)


def test_the_polynomials_are_those_of_hermite() -> None:
    nodes = hermite_nodes()
    for order in range(N_NODES):
        expected = eval_hermitenorm(order, nodes.points.numpy()) / math.sqrt(math.factorial(order))
        assert torch.allclose(nodes.polynomials[order], torch.from_numpy(expected), rtol=1e-10)


def test_the_polynomials_are_orthonormal_under_the_weights() -> None:
    nodes = hermite_nodes()
    products = (nodes.polynomials * nodes.weights) @ nodes.polynomials.mT
    assert torch.allclose(products, torch.eye(N_NODES, dtype=torch.float64), atol=1e-10)


def test_the_nodes_are_many_positive_and_symmetric() -> None:
    nodes = hermite_nodes()
    assert len(nodes.points) == N_NODES == 21
    assert (nodes.weights > 0).all()
    assert nodes.weights.sum().item() == pytest.approx(1, abs=1e-15)
    assert torch.allclose(nodes.points, -nodes.points.flip(0), atol=1e-13)
    assert torch.allclose(nodes.weights, nodes.weights.flip(0), rtol=1e-10)
