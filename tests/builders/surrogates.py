"""Small surrogates and members with the exact kernel; their kernels, written out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

import torch
from torch import Tensor

from builders.models import normal
from sswim.members import ExactKind, ExactMembers, ExactModels, ExactRows
from sswim.members.exact_model import ExactFactors
from sswim.rows import Measure
from sswim.surrogate import InputRange, Surrogate, TargetMap
from sswim.warps import OutputMap, OutputWarp, monotone_warp
from sswim.warps.warp import warp

KINDS = (
    ExactKind("matern52", monotone=True, depth=2),
    ExactKind("matern52", monotone=True, depth=1),
    ExactKind("matern52", monotone=True),
    ExactKind("matern52"),
    ExactKind("rbf", ripples=True),
    ExactKind("rbf", monotone=True),
    ExactKind("rbf"),
    ExactKind("rbf", monotone=True, additive=True),
    ExactKind("matern52", additive=True, ripples=True),
)
"""A member of every form."""


def uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64)


@torch.no_grad()
def bent_models(
    generator: torch.Generator, kinds: Sequence[ExactKind] = KINDS, n_inputs: int = 2
) -> ExactModels:
    """Make models with random parameters, whose warps are far from the identity."""
    models = ExactModels(kinds, uniform(generator, 20, n_inputs) - 0.5, False, generator)
    for parameter in models.parameters():
        parameter.add_(0.3 * normal(generator, *parameter.shape))
    models.log_noise.add_(math.log(0.01) - models.log_noise.mean())
    models.log_length_scales.sub_(0.5)
    models.log_ripples.add_(1.5)  # else they could be left out unnoticed
    return models


@torch.no_grad()
def small_members(
    generator: torch.Generator,
    kinds: Sequence[ExactKind] = KINDS,
    n_rows: int = 9,
    *,
    noise: float | None = None,
    known: bool = False,
) -> ExactMembers:
    """Condition such models on rows of two inputs.

    Args:
        generator: Generator of parameters and rows.
        kinds: The kind of every member.
        n_rows: Number of rows.
        noise: Noise of all members; each has its own by default.
        known: Whether rows have a known variance of their noise as well.
    """
    factors = bent_models(generator, kinds).factors()[0].map(torch.clone)
    if noise is not None:
        factors = replace(factors, noise=torch.full_like(factors.noise, noise))
    return ExactMembers.condition(factors, small_rows(generator, n_rows, known=known))


def small_rows(generator: torch.Generator, n_rows: int, *, known: bool = False) -> ExactRows:
    """Draw rows as members see them."""
    inputs = uniform(generator, n_rows, 2) - 0.5
    targets = (4 * inputs).sin().sum(-1) + 0.1 * normal(generator, n_rows)
    return ExactRows(inputs, targets, 0.1 * uniform(generator, n_rows) if known else None)


def dense_kernel(factors: ExactFactors, member: int, a: Tensor, b: Tensor) -> Tensor:
    """Return s²(k(‖u(a) − u(b)‖) + ρ·k'(‖u(a) − u(b)‖/c)) of one member, written out."""
    kind = factors.kinds[member]
    differences = warped(factors, member, a)[:, None] - warped(factors, member, b)
    squared = differences.square()
    fine = correlation("matern52", squared.sum(-1) / factors.ripple_scale[member] ** 2)
    smooth = correlation(kind.kernel, squared.sum(-1))
    if kind.additive:
        strength = factors.interaction[member]
        smooth = ((1 + strength * correlation(kind.kernel, squared)) / (1 + strength)).prod(-1)
    return factors.signal[member] * (smooth + factors.ripple_signal[member] * fine)


def warped(factors: ExactFactors, member: int, inputs: Tensor) -> Tensor:
    """Return inputs as the kernel of one member sees them, warp by warp."""
    kind = factors.kinds[member]
    if kind.monotone:
        inputs = monotone_warp(factors.log_slopes[member, None], inputs)[0]
    for own in factors.warps[: kind.depth]:
        inputs = warp(own.map(itemgetter(member)), Measure(inputs)).mean
    return inputs / factors.length_scales[member]


def correlation(kernel: str, squared: Tensor) -> Tensor:
    if kernel == "rbf":
        return (-squared / 2).exp()
    scaled = (5 * squared + 1e-300).sqrt()  # with gradients at zero
    return (1 + scaled + scaled**2 / 3) * (-scaled).exp()


@torch.no_grad()
def bent_map(generator: torch.Generator) -> TargetMap:
    """Make a target map with a random output warp, continued by its tangents."""
    output_warp = OutputWarp("sinh-arcsinh", 1, 1)
    output_warp.coordinates.copy_(0.5 * normal(generator, 4, 1))
    low, high = torch.tensor([[-2.0], [2.5]], dtype=torch.float64)
    output_warp.set_range(low, high)
    centre, spread = torch.tensor([3.0, 0.7], dtype=torch.float64)
    return TargetMap(centre, spread, output_warp.factors()[0].map(torch.clone))


def small_surrogate(members: ExactMembers, target_map: TargetMap | None = None) -> Surrogate:
    """Make a surrogate of members with different weights, on inputs between 0 and 1."""
    n_members, n_inputs = members.factors.length_scales.shape
    weights = torch.arange(1, n_members + 1, dtype=torch.float64)
    zero, one = torch.tensor([0.0, 1.0], dtype=torch.float64)
    return Surrogate(
        members,
        weights / weights.sum(),
        TargetMap(zero, one, OutputMap()) if target_map is None else target_map,
        InputRange(zero.expand(n_inputs), one.expand(n_inputs)),
    )
