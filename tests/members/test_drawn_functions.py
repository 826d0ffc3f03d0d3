"""Functions drawn from ensembles of every kind: their gradients and their moments."""

from __future__ import annotations

import pytest
import torch
from builders.posteriors import KINDS, far_points, far_rows, small_ensemble

from sswim.members import NeighbourMember
from sswim.rows import Measure, Rows

GAUSSIAN = [
    "depth 1",
    "sinh-arcsinh",
    "tanh",
    "neighbours, one amplitude",
    "warped neighbours",
    "mixture",
]
"""Kinds whose draws have the moments of the posterior, or nearly so."""


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return far_rows(generator)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind: str, rows: Rows, generator: torch.Generator) -> None:
    functions = small_ensemble(rows, KINDS[kind], generator).sample(3, generator)
    points = far_points(generator, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: functions(Measure(x)), points, atol=1e-6)


def test_functions_are_the_same_with_and_without_gradients(
    rows: Rows, generator: torch.Generator
) -> None:
    functions = small_ensemble(rows, KINDS["mixture"], generator).sample(8, generator)
    points = far_points(generator, 5)
    plain = functions(Measure(points))
    assert not plain.requires_grad
    recorded = functions(Measure(points.requires_grad_()))
    assert recorded.requires_grad
    assert torch.allclose(plain, recorded, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", GAUSSIAN)
def test_many_functions_have_the_moments_of_the_posterior(
    kind: str, rows: Rows, generator: torch.Generator
) -> None:
    ensemble = small_ensemble(rows, KINDS[kind], generator)
    points, n = far_points(generator, 3), 4000
    draws = torch.cat([ensemble.sample(n // 10, generator)(Measure(points)) for _ in range(10)])
    found = ensemble.posterior(points)
    assert ((draws.mean(0) - found.mean).abs() < 4 * draws.std(0) / n**0.5).all()
    centred = (draws - draws.mean(0)).mT  # (n, T, q)
    products = centred[..., :, None] * centred[..., None, :]
    errors = (products.mean(0) - found.covariance).abs()
    # The features of a drawn prior stand for the exact kernel, to about 1/√2048.
    by_neighbours = any(isinstance(each, NeighbourMember) for each in ensemble.members)
    rounding = 0.02 * found.variance.max() if by_neighbours else 0.0
    assert (errors < 4 * products.std(0) / n**0.5 + rounding).all()
