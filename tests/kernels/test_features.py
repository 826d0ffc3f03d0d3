from __future__ import annotations

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.kernels import (
    expected_features,
    expected_quadratic,
    feature_slopes,
    features_and_norm,
    multiply,
    transposed_product,
)
from sswim.rows import Measure


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
    assert torch.allclose(points.square().sum(-1), torch.ones(9, dtype=dtype))
    for zero in (torch.zeros(9, 3, dtype=dtype), torch.zeros(9, 3, 3, dtype=dtype)):
        assert torch.equal(expected_features(frequencies, Measure(mean, zero)), points)


def test_causes_of_uncertainty_add_up(generator: torch.Generator) -> None:
    mean, frequencies = normal(generator, 6, 3), normal(generator, 5, 3)
    variance, covariance = normal(generator, 6, 3).square(), covariances(generator, 6, 3)
    for other in (torch.zeros_like(covariance), covariance):
        together = expected_features(frequencies, Measure(mean, variance.diag_embed() + other))
        apart = expected_features(frequencies, Measure(mean, variance, other))
        assert torch.allclose(together, apart, rtol=1e-12)


@pytest.mark.parametrize("kind", ["points", "diagonal", "full"])
def test_the_norm_and_gradients(kind: str, generator: torch.Generator) -> None:
    given = [normal(generator, 3, 2), normal(generator, 4, 2)]
    if kind == "diagonal":
        given.append(normal(generator, 4, 2).square())
    if kind == "full":
        given.append(covariances(generator, 4, 2))

    def both(*tensors: Tensor) -> tuple[Tensor, ...]:
        features, norm = features_and_norm(tensors[0], Measure(*tensors[1:]))
        return (features,) if norm is None else (features, norm)

    features, *norms = both(*given)
    assert torch.equal(features, expected_features(given[0], Measure(*given[1:])))
    assert len(norms) == (kind != "points")
    for norm in norms:
        assert torch.allclose(norm[:, 0], features.square().sum(-1), rtol=1e-13)
    leaves = [tensor.requires_grad_() for tensor in given]
    torch.autograd.gradcheck(both, leaves)
    torch.autograd.gradcheck(lambda *tensors: both(*tensors)[-1], leaves)


@pytest.mark.parametrize("asked", range(1, 8))
@pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])
def test_gradients_of_members_in_whatever_is_asked_for(
    asked: int, own: bool, generator: torch.Generator
) -> None:
    """With rows that members share, or rows of their own."""
    rows = (2,) if own else ()
    given = [normal(generator, 2, 3, 2), *normal(generator, 2, *rows, 4, 2)]
    given[2] = given[2].square()
    for index, tensor in enumerate(given):
        tensor.requires_grad_(bool(asked >> index & 1))
    torch.autograd.gradcheck(lambda w, m, v: expected_features(w, Measure(m, v)), given)


@pytest.mark.parametrize("sizes", [(5, 2), (2, 5), (3, 3)])
@pytest.mark.parametrize("shared", [False, True])
def test_products_either_way_round(
    sizes: tuple[int, int], shared: bool, generator: torch.Generator
) -> None:
    rows = normal(generator, *(() if shared else (2,)), 4, sizes[0])
    matrix, others = normal(generator, 2, *sizes), normal(generator, 2, 4, sizes[1])
    assert torch.allclose(multiply(rows, matrix), rows @ matrix, rtol=1e-13)
    assert torch.allclose(transposed_product(rows, others), rows.mT @ others, rtol=1e-13)


def test_slopes_are_derivatives(generator: torch.Generator) -> None:
    mean, frequencies = normal(generator, 6, 3), normal(generator, 5, 3)
    variance, weights = normal(generator, 6, 3).square(), normal(generator, 10, 2)

    def values(at: Tensor) -> Tensor:
        return (expected_features(frequencies, Measure(at, variance)) @ weights).sum(0)

    expected = torch.autograd.functional.jacobian(values, mean).permute(1, 0, 2)
    features = expected_features(frequencies, Measure(mean, variance))
    assert torch.allclose(feature_slopes(frequencies, features, weights), expected)


@pytest.mark.parametrize("full", [False, True])
def test_second_moments_against_draws(full: bool, generator: torch.Generator) -> None:
    """Over the uncertainty of the raw input, with features damped by that of the warps."""
    mean, frequencies = normal(generator, 3, 2), normal(generator, 4, 2)
    warps, covariance = 0.2 * normal(generator, 3, 2).square(), covariances(generator, 3, 2)
    given = covariance if full else covariance.diagonal(dim1=-2, dim2=-1)
    form = normal(generator, 8, 8)
    form = form + form.mT
    closed_form = expected_quadratic(frequencies, Measure(mean, warps, given), form)
    for row in range(3):
        root = torch.linalg.cholesky(covariance[row] if full else given[row].diag())
        draws = mean[row] + normal(generator, 400_000, 2) @ root.mT
        features = expected_features(frequencies, Measure(draws, warps[row].expand_as(draws)))
        values = ((features @ form) * features).sum(-1)
        standard_error = values.std() / len(values) ** 0.5
        assert (values.mean() - closed_form[row]).abs() < 4 * standard_error


@pytest.mark.parametrize("variance", [1e6, 1e20, 1e40])
def test_second_moments_stay_finite_for_very_uncertain_inputs(
    variance: float, generator: torch.Generator
) -> None:
    variances = torch.full((3, 2), variance, dtype=torch.float64)
    measure = Measure(normal(generator, 3, 2), input_variance=variances)
    form = torch.eye(8, dtype=torch.float64)
    values = expected_quadratic(normal(generator, 4, 2), measure, form)
    assert torch.allclose(values, torch.ones(3, dtype=torch.float64))  # E ‖φ‖² = 1
