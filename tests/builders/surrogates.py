"""Small surrogates: hand-made ones with random parameters, and one that is fitted in few steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from builders.models import normal
from sswim.members.exact_members import ExactMembers, Observed, condition
from sswim.members.exact_model import ExactKind, ExactModels
from sswim.surrogate.fitting import fit_surrogate
from sswim.surrogate.surrogate import InputRange, Surrogate
from sswim.surrogate.target_map import TargetMap
from sswim.warps import OutputMap, OutputWarp

KINDS = (
    ExactKind("matern52", monotone=True, depth=2),
    ExactKind("matern52", monotone=True, depth=1),
    ExactKind("matern52", monotone=True),
    ExactKind("matern52"),
    ExactKind("rbf", ripples=True),
    ExactKind("rbf", monotone=True),
    ExactKind("rbf"),
    ExactKind("rbf", monotone=True, additive=True),
)
"""A member of every form."""


def uniform(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=torch.float64)


@torch.no_grad()
def bent_members(
    generator: torch.Generator, kinds: Sequence[ExactKind] = KINDS, n_inputs: int = 2
) -> ExactModels:
    """Make members with random parameters, whose warps are far from the identity."""
    members = ExactModels(kinds, uniform(generator, 20, n_inputs) - 0.5, False, generator)
    for parameter in members.parameters():
        parameter.add_(0.3 * normal(generator, *parameter.shape))
    members.log_noise.add_(math.log(0.01) - members.log_noise.mean())
    members.log_length_scales.sub_(0.5)
    members.log_ripples.add_(1.5)  # else they could be left out unnoticed
    return members


@torch.no_grad()
def small_gp(
    generator: torch.Generator,
    kinds: Sequence[ExactKind] = KINDS,
    n_rows: int = 9,
    n_inputs: int = 2,
    *,
    noise: float | None = None,
    known: bool = False,
) -> ExactMembers:
    """Condition such members on rows.

    Args:
        generator: Generator of parameters and rows.
        kinds: The kind of every member.
        n_rows: Number of rows.
        n_inputs: Number of inputs.
        noise: Noise of all members; each has its own by default.
        known: Whether rows have a known variance of their noise as well.
    """
    members = bent_members(generator, kinds, n_inputs)
    factors = members.factors()[0].map(torch.clone)
    if noise is not None:
        factors = replace(factors, noise=torch.full_like(factors.noise, noise))
    return condition(factors, members.kinds, small_rows(generator, n_rows, n_inputs, known=known))


def small_rows(
    generator: torch.Generator, n_rows: int, n_inputs: int = 2, *, known: bool = False
) -> Observed:
    """Draw rows as members see them."""
    inputs = uniform(generator, n_rows, n_inputs) - 0.5
    targets = (4 * inputs).sin().sum(-1) + 0.1 * normal(generator, n_rows)
    return Observed(inputs, targets, 0.1 * uniform(generator, n_rows) if known else None)


@torch.no_grad()
def bent_map(generator: torch.Generator) -> TargetMap:
    """Make a target map with a random output warp, continued by its tangents."""
    warp = OutputWarp("sinh-arcsinh", 1, 1)
    warp.coordinates.copy_(0.5 * normal(generator, 4, 1))
    low, high = torch.tensor([[-2.0], [2.5]], dtype=torch.float64)
    warp.set_range(low, high)
    centre, spread = torch.tensor([3.0, 0.7], dtype=torch.float64)
    return TargetMap(centre, spread, warp.factors()[0].map(torch.clone))


def small_surrogate(gp: ExactMembers, target_map: TargetMap | None = None) -> Surrogate:
    """Make a surrogate of members with different weights, on inputs between 0 and 1."""
    n_members, n_inputs = gp.factors.length_scales.shape
    weights = torch.arange(1, n_members + 1, dtype=torch.float64)
    zero, one = torch.tensor([0.0, 1.0], dtype=torch.float64)
    return Surrogate(
        gp,
        weights / weights.sum(),
        TargetMap(zero, one, OutputMap()) if target_map is None else target_map,
        InputRange(zero.expand(n_inputs), one.expand(n_inputs)),
    )


@cache
def fitted_surrogate() -> Surrogate:
    """Fit a surrogate in few steps; tests share it."""
    generator = torch.Generator().manual_seed(1)
    inputs = uniform(generator, 16, 2)
    targets = (3 * inputs).sin().prod(-1).exp()
    return fit_surrogate(inputs, targets, None, generator, n_steps=5)
