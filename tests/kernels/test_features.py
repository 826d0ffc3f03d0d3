"""Frequencies and the features of points and measures, against kernels, draws and derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import normal, unchecked
from builders.neighbours import KERNELS, SCIKIT_LEARN
from scipy import stats
from torch import Tensor

from sswim.kernels import (
    Kernel,
    Spectrum,
    draw_frequencies,
    draw_independent_frequencies,
    expected_features,
    expected_quadratic,
    feature_slopes,
    features_and_norm,
    multiply,
    transposed_product,
)
from sswim.rows import Measure

Draw = Callable[[Kernel, int, int, torch.Generator], Tensor]
DRAWS: dict[str, Draw] = {
    "orthogonal": draw_frequencies,
    "independent": draw_independent_frequencies,
}
of_all_draws = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
NU = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


def exact(kernel: Kernel, x: Tensor, length_scales: Tensor) -> Tensor:
    """Return the kernel matrix of scikit-learn."""
    return torch.from_numpy(SCIKIT_LEARN[kernel](length_scales.numpy())(x.numpy()))


def approximate(frequencies: Tensor, x: Tensor) -> Tensor:
    features = expected_features(frequencies, Measure(x))
    return features @ features.mT


def mean_errors(
    kernel: Kernel, draw: Draw, n_frequencies: int, n_inputs: int, repeats: int
) -> tuple[float, float]:
    """Return the largest and the root mean square error over pairs of rows, averaged over draws."""
    x = normal(torch.Generator().manual_seed(5), 50, n_inputs)
    x = 0.7 * x * (2 / n_inputs) ** 0.5  # kernel values spread over (0, 1) whatever D
    truth = exact(kernel, x, torch.ones(n_inputs))
    largest, square = [], []
    for seed in range(repeats):
        generator = torch.Generator().manual_seed(seed)
        error = approximate(draw(kernel, n_frequencies, n_inputs, generator), x) - truth
        largest.append(error.abs().max().item())
        square.append(error.square().mean().item())
    return float(np.mean(largest)), math.sqrt(float(np.mean(square)))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_inputs", [2, 8])
def test_orthogonal_draws_are_better_at_equal_number(kernel: Kernel, n_inputs: int) -> None:
    orthogonal, independent = (
        mean_errors(kernel, draw, 256, n_inputs, repeats=40) for draw in DRAWS.values()
    )
    assert orthogonal[0] < 0.95 * independent[0]
    assert orthogonal[1] < 0.8 * independent[1]


@pytest.mark.parametrize("kernel", KERNELS)
@of_all_draws
def test_frequencies_along_an_axis_have_the_law_of_the_1d_kernel(
    kernel: Kernel, draw: Draw
) -> None:
    generator = torch.Generator().manual_seed(1)
    draws = [draw(kernel, 7, 3, generator)[-1:, 1] for _ in range(3000)]
    law = stats.norm() if kernel == "rbf" else stats.t(2 * NU[kernel])
    assert stats.kstest(torch.cat(draws).numpy(), law.cdf).pvalue > 0.01


def test_orthogonal_blocks_are_orthogonal(generator: torch.Generator) -> None:
    frequencies = draw_frequencies("matern32", 10, 4, generator)
    assert frequencies.shape == (10, 4)
    for block in frequencies.split(4):
        gram = block @ block.mT
        assert torch.allclose(gram, gram.diagonal().diag(), atol=1e-12 * gram.max().item())


@pytest.mark.parametrize("kernel", KERNELS)
def test_spectrum_has_one_length_scale_per_input(
    kernel: Kernel, generator: torch.Generator
) -> None:
    length_scales = torch.tensor([0.5, 1.0, 4.0], dtype=torch.float64)
    spectrum = Spectrum(20_000, 3)
    spectrum.start(kernel, length_scales, generator)
    x = normal(generator, 30, 3)
    error = approximate(spectrum.frequencies().detach(), x) - exact(kernel, x, length_scales)
    assert error.abs().max() < 0.02


@of_all_draws
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n_inputs", [1, 200])
def test_radii_have_the_law_of_the_kernel_in_few_and_many_inputs(
    kernel: Kernel, draw: Draw, n_inputs: int, generator: torch.Generator
) -> None:
    """‖ω‖² is χ²_D for the RBF kernel, and ‖ω‖²/D is F(D, 2ν) for Matérn-ν."""
    frequencies = draw(kernel, 4096, n_inputs, generator)
    assert frequencies.isfinite().all()
    squares = frequencies.square().sum(-1)
    if kernel == "rbf":
        test = stats.kstest(squares.numpy(), stats.chi2(n_inputs).cdf)
    else:
        law = stats.f(n_inputs, 2 * NU[kernel])
        test = stats.kstest((squares / n_inputs).numpy(), law.cdf)
    assert test.pvalue > 0.001


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"n_frequencies": 0}, "at least one frequency"),
    ],
)
def test_bad_choices_are_named(
    change: dict[str, Any], message: str, generator: torch.Generator
) -> None:
    arguments = {"kernel": "rbf", "n_frequencies": 4, "n_inputs": 2, "generator": generator}
    with pytest.raises(ValueError, match=message):
        unchecked(draw_frequencies, **{**arguments, **change})


# Features.


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
