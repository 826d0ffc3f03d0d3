"""Small models and rows, and helpers that several tests share."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from sswim.base.record import Record
from sswim.ensemble.mixture import Mixture
from sswim.members.density import Density
from sswim.members.model import SSWIM, Architecture, Observations
from sswim.members.start import start
from sswim.rows import Measure, Rows, Scaling, as_rows, no_scaling
from sswim.warps import OutputWarp, OutputWarpName, PseudoGP

SMALL = Architecture(depth=1, n_frequencies=6, n_pseudo=5, n_noise_frequencies=3)
DENSITIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sinh-arcsinh": {"output_warp": "sinh-arcsinh", "noise": "input-dependent"},
    "tanh": {"output_warp": "tanh", "noise": "input-dependent"},
}
"""Settings of the output warp and of the noise, by name."""
OUTPUT_WARPS: list[tuple[OutputWarpName, int]] = [
    ("sinh-arcsinh", 1),
    ("sinh-arcsinh", 2),
    ("sinh-arcsinh", 3),
    ("tanh", 1),
    ("tanh", 3),
    ("tanh", 20),
]
NOISE = torch.tensor([0.1, 0.4], dtype=torch.float64)
SIGNAL = torch.tensor([2.0, 0.5], dtype=torch.float64)
"""σ² and s² of two targets."""


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def small_rows(
    generator: torch.Generator,
    n: int = 23,
    n_targets: int = 1,
    *,
    weighted: bool = False,
    uncertain: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Rows:
    x = normal(generator, n, 3)
    y = (x @ normal(generator, 3, n_targets)).sin() + 0.1 * normal(generator, n, n_targets)
    weight = torch.rand(n, generator=generator, dtype=torch.float64) * 2 if weighted else None
    variance = 0.1 * normal(generator, n, 3).square() if uncertain else None
    return as_rows(x, y, weight, variance, dtype)


def small_model(
    rows: Rows, generator: torch.Generator, perturb: float = 0.3, **changes: Any
) -> SSWIM:
    """Make a model with random parameters, so that no term vanishes."""
    architecture = dataclasses.replace(SMALL, **changes)
    model = start(architecture, rows.inputs.mean, rows.targets.shape[1], generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(perturb * normal(generator, *parameter.shape))
    return model


def move_gp(gp: PseudoGP, generator: torch.Generator) -> PseudoGP:
    """Give a GP random frequencies, pseudo-inputs and pseudo-targets, and return it."""
    n_inputs = gp.pseudo_inputs.shape[1]
    scales = 0.5 + torch.rand(n_inputs, generator=generator, dtype=torch.float64)
    gp.spectrum.start("matern32", scales, generator)
    gp.start(normal(generator, 40, n_inputs), torch.ones_like(scales), generator)
    with torch.no_grad():
        gp.pseudo_targets.copy_(normal(generator, *gp.pseudo_targets.shape))
        gp.log_signal.fill_(math.log(0.4))
        gp.log_noise.fill_(math.log(0.03))
    return gp


def observations(
    features: Tensor,
    targets: Tensor,
    weight: Tensor | None = None,
    log_precision: Tensor | None = None,
    temper: Tensor | None = None,
) -> Observations:
    """Make observations whose targets are not warped."""
    no_slope = torch.zeros_like(targets)
    return Observations(features, targets, no_slope, log_precision, weight, temper)


def random_warp(
    kind: OutputWarpName,
    n_terms: int,
    generator: torch.Generator,
    n_targets: int = 3,
    spread: float = 1.0,
) -> OutputWarp:
    """Make an output warp whose coordinates are drawn with the standard deviation ``spread``."""
    module = OutputWarp(kind, n_terms, n_targets)
    with torch.no_grad():
        module.coordinates.copy_(spread * normal(generator, *module.coordinates.shape))
    return module


def target_scaling(mean: list[float], spread: list[float]) -> Scaling:
    """Make a scaling that changes targets and leaves one input as it is."""
    one_row = Rows(
        Measure(torch.zeros(1, 1, dtype=torch.float64)),
        torch.zeros(1, len(mean), dtype=torch.float64),
    )
    return dataclasses.replace(
        no_scaling(one_row),
        target_mean=torch.tensor(mean, dtype=torch.float64),
        target_spread=torch.tensor(spread, dtype=torch.float64),
    )


def assert_moments(warped: Measure, draws: Tensor) -> None:
    """Mean and variance are within four standard errors of the sampled ones."""
    assert warped.variance is not None
    n = len(draws)
    centred = draws - draws.mean(0)
    assert ((draws.mean(0) - warped.mean).abs() < 4 * draws.std(0) / math.sqrt(n)).all()
    squares = centred.square()
    error = (squares.mean(0) - warped.variance).abs()
    assert (error < 4 * squares.std(0) / math.sqrt(n)).all()


def gradients(model: SSWIM) -> dict[str, Tensor]:
    return {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def assert_close(ours: Record, theirs: Record, tolerance: float = 1e-8) -> None:
    """Check that two records are the same but for rounding; exactly for a tolerance of zero."""
    for mine, other in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert torch.allclose(mine, other, rtol=tolerance, atol=tolerance)


def relative_error(actual: Tensor, expected: Tensor) -> float:
    return ((actual - expected).abs().max() / expected.abs().max()).item()


def unchecked(function: Callable[..., Any], **arguments: Any) -> Any:
    """Call a function as users do, without the type checks that the tests add to the package."""
    if inspect.isclass(function):
        instance = function.__new__(function)
        inspect.unwrap(function.__init__)(instance, **arguments)
        return instance
    return inspect.unwrap(function)(**arguments)


def members_of(mixture: Mixture) -> list[Density]:
    """Take the batches of a mixture apart."""
    return [
        replace(
            density,
            warped=density.warped.map(itemgetter(number)),
            output=density.output.map(itemgetter(number)),
        )
        for density in mixture.densities
        for number in range(len(density.warped.mean))
    ]
