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
