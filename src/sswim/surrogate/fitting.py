"""Fitting a surrogate: its map of targets, its members, and their weights.

Every kind has one member for each fold of the rows, which leaves the fold out while it learns. So
the kinds are weighed on rows that they have not seen. Then the members of the kinds that have a
weight go on learning, for fewer steps, from all folds, and are conditioned on all rows. Near copies
of rows do not count in any of this, except for the level of the noise and when members are
conditioned.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from sswim.base.threads import flushed_denormals, map_on_cores
from sswim.surrogate.distinct_rows import distinct_rows
from sswim.surrogate.exact_gp import Observed, condition
from sswim.surrogate.map_choice import choose_map
from sswim.surrogate.member_evidence import MapParts
from sswim.surrogate.member_kind import KINDS, MemberKind
from sswim.surrogate.member_training import MemberTraining
from sswim.surrogate.members import Members
from sswim.surrogate.noise_level import refit_noise
from sswim.surrogate.surrogate import InputRange, Surrogate
from sswim.surrogate.target_map import TargetMap
from sswim.surrogate.weights import assign_folds, stacked_weights

N_FOLDS = 4
"""Number of folds, and of members of each kind."""

SMALLEST_FOLDED = 8
"""With fewer rows none are left out, and kinds have equal weights."""

LARGEST_TRAINED = 256
"""Largest number of rows that members learn from; they are conditioned on all of them."""

N_STEPS, N_STEPS_OF_ONE_INPUT = 80, 120
"""Number of steps of Adam before the kinds are weighed. The maps of targets are compared in half as
many, and a third as many follow. Few rows show a function of one input in detail, which takes more
steps to learn."""


def fit_surrogate(
    inputs: Float64[Tensor, "N D"],
    targets: Float64[Tensor, " N"],
    variance: Float64[Tensor, " N"] | None,
    generator: torch.Generator,
    kinds: Sequence[MemberKind] = KINDS,
    n_steps: int | None = None,
) -> Surrogate:
    """Fit a surrogate to rows.

    Args:
        inputs: Inputs, in any units.
        targets: Targets, in any units.
        variance: Known variance of the noise of each target; None to learn one for all rows.
        generator: A generator on the CPU; all draws come from it.
        kinds: Kinds of members, in an order as :data:`KINDS` has.
        n_steps: Number of steps before the kinds are weighed; by default enough.
    """
    if n_steps is None:
        n_steps = N_STEPS_OF_ONE_INPUT if inputs.shape[1] == 1 else N_STEPS
    input_range = InputRange.of(inputs)
    rows = some = Observed(input_range.scale(inputs), targets, variance)
    if len(targets) > LARGEST_TRAINED:
        chosen = torch.randperm(len(targets), generator=generator)[:LARGEST_TRAINED]
        some = _take(rows, chosen.to(targets.device))
    distinct = _take(some, distinct_rows(some.inputs))
    with map_on_cores() as map_parts, flushed_denormals():
        target_map = choose_map(distinct, max(1, n_steps // 2), map_parts)
        learnt = _mapped(distinct, target_map)
        training, weights = _train(learnt, kinds, n_steps, generator, map_parts)
    with torch.no_grad():
        factors = training.members.condition()[0].map(torch.clone)
    if variance is None and len(distinct.targets) < len(some.targets):
        factors = refit_noise(factors, training.members.kinds, _mapped(some, target_map))
    gp = condition(factors, training.members.kinds, _mapped(rows, target_map))
    return Surrogate(gp, weights, target_map, input_range)


def _train(
    rows: Observed,
    kinds: Sequence[MemberKind],
    n_steps: int,
    generator: torch.Generator,
    map_parts: MapParts,
) -> tuple[MemberTraining, Float64[Tensor, " B"]]:
    """Train members of all kinds, and return those that have a weight, with their weights."""
    device = rows.inputs.device
    n_folds = N_FOLDS if len(rows.inputs) >= SMALLEST_FOLDED else 1
    fold = assign_folds(rows.inputs, n_folds, generator)
    numbers = torch.arange(n_folds, device=device).repeat(len(kinds))
    left_out = (fold == numbers[:, None]) & (n_folds > 1)
    members = Members(
        [kind for kind in kinds for _ in range(n_folds)],
        rows.inputs.cpu(),
        rows.variance is not None,
        generator,
    )
    shape = left_out.shape
    training = MemberTraining(
        members.to(device),
        rows.inputs,
        rows.targets.expand(shape),
        None if rows.variance is None else rows.variance.expand(shape),
        left_out,
        map_parts,
    )
    training.run(n_steps)
    if n_folds == 1:
        return training, rows.targets.new_full((len(kinds),), 1 / len(kinds))
    weights = stacked_weights(_held_out_log_densities(training.members, rows, left_out[:n_folds]))
    used = weights.repeat_interleave(n_folds).nonzero()[:, 0]
    training.keep(used)
    training.run(max(1, n_steps // 3))
    return training, weights[weights > 0].repeat_interleave(n_folds) / n_folds


@torch.no_grad()
def _held_out_log_densities(
    members: Members, rows: Observed, folds: Bool[Tensor, "F N"]
) -> Float64[Tensor, "K N"]:
    """Return the log density of every row by every kind's member that has left it out."""
    factors, _ = members.condition()
    n_members, n_folds = len(members.kinds), len(folds)
    densities = rows.targets.new_zeros(n_members // n_folds, len(rows.targets))
    for fold, left_out in enumerate(folds):
        some = torch.arange(fold, n_members, n_folds, device=rows.inputs.device)
        seen, unseen = _take(rows, ~left_out), _take(rows, left_out)
        gp = condition(factors.select(some), members.kinds[fold::n_folds], seen)
        mean, covariance = gp.joint(unseen.inputs[None])
        variance = covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0)
        variance = variance + unseen.noise(gp.factors)
        squared = (unseen.targets - mean).square() / variance
        densities[:, left_out] = -0.5 * (squared + variance.log())
    return densities.nan_to_num(nan=-1e6)


def _mapped(rows: Observed, target_map: TargetMap) -> Observed:
    """Return rows with z in place of y; the variances of noise change by the slope's square."""
    targets, slope = target_map.forward(rows.targets)
    variance = None if rows.variance is None else rows.variance * slope.square()
    return Observed(rows.inputs, targets, variance)


def _take(rows: Observed, which: Tensor) -> Observed:
    """Return some of the rows."""
    variance = None if rows.variance is None else rows.variance[which]
    return Observed(rows.inputs[which], rows.targets[which], variance)
