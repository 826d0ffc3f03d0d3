from __future__ import annotations

import pytest
import torch
from helpers import normal
from torch import Tensor

from sswim.features import expected_features
from sswim.measure import Measure


def covariances(generator: torch.Generator, n: int, d: int) -> Tensor:
    root = normal(generator, n, d, d)
    return 0.2 * root @ root.mT


@pytest.mark.parametrize("full", [False, True])
def test_expected_features_against_a_million_draws(full: bool, generator: torch.Generator) -> None:
    mean, frequencies = normal(generator, 3, 2), normal(generator, 4, 2)
    covariance = covariances(generator, 3, 2)
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    closed_form = expected_features(frequencies, Measure(mean, covariance if full else variance))
    for row in range(3):
        root = torch.linalg.cholesky(covariance[row] if full else variance[row].diag())
        draws = mean[row] + normal(generator, 1_000_000, 2) @ root.mT
        sampled = expected_features(frequencies, Measure(draws))
        standard_error = sampled.std(0) / 1000
        assert ((sampled.mean(0) - closed_form[row]).abs() < 4 * standard_error).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_variance_gives_the_features_of_points(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    mean, frequencies = normal(generator, 9, 3).to(dtype), normal(generator, 5, 3).to(dtype)
    points = expected_features(frequencies, Measure(mean))
    assert points.dtype == dtype
    for zero in (torch.zeros(9, 3, dtype=dtype), torch.zeros(9, 3, 3, dtype=dtype)):
        assert torch.equal(expected_features(frequencies, Measure(mean, zero)), points)


def test_features_of_points_have_unit_norm(generator: torch.Generator) -> None:
    features = expected_features(normal(generator, 7, 2), Measure(normal(generator, 20, 2)))
    assert torch.allclose(features.square().sum(-1), torch.ones(20, dtype=torch.float64))


def test_full_covariance_includes_the_diagonal_one(generator: torch.Generator) -> None:
    mean, frequencies = normal(generator, 6, 3), normal(generator, 5, 3)
    variance = normal(generator, 6, 3).square()
    diagonal = expected_features(frequencies, Measure(mean, variance))
    full = expected_features(frequencies, Measure(mean, variance.diag_embed()))
    assert torch.allclose(diagonal, full, rtol=1e-13)


@pytest.mark.parametrize("kind", ["points", "diagonal", "full"])
def test_gradients(kind: str, generator: torch.Generator) -> None:
    frequencies = normal(generator, 3, 2).requires_grad_()
    mean = normal(generator, 4, 2).requires_grad_()
    variance = {
        "points": None,
        "diagonal": normal(generator, 4, 2).square().requires_grad_(),
        "full": covariances(generator, 4, 2).requires_grad_(),
    }[kind]
    torch.autograd.gradcheck(
        lambda *tensors: expected_features(tensors[0], Measure(*tensors[1:])),
        [tensor for tensor in (frequencies, mean, variance) if tensor is not None],
    )
