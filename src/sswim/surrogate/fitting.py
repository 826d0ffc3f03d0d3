"""Fitting a surrogate: its map of targets, its members, and their weights.

Every kind has one member for each fold of the rows, which leaves the fold out while it learns. So
the kinds are weighed on rows that they have not seen. Then the members of the kinds that have a
weight go on learning, for fewer steps, from all folds, and are conditioned on all rows. Near copies
of rows do not count in any of this, except for the level of the noise and when members are
conditioned.

The choice of the map of targets, by the evidence of small models that see targets through each.

Values that span orders of magnitude, such as losses that blow up in a corner, are smooth on a
logarithmic scale and not on their own. The evidence of y, that of z plus Σ log dz/dy, says so.

The noise of members whose other parameters are known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.record import flushed_denormals, map_on_cores
from sswim.members.exact_members import (
    ExactTraining,
    MapParts,
    Observed,
    condition,
    left_out_densities,
    negative_log_evidence,
)
from sswim.members.exact_model import (
    SMALLEST_NOISE,
    ExactFactors,
    ExactKind,
    ExactModels,
    exact_points,
    kernel_within,
    negative_log_noise_prior,
)
from sswim.surrogate.surrogate import InputRange, Surrogate
from sswim.surrogate.target_map import LogarithmicMap, TargetMap, standardise
from sswim.warps.output_warp import OutputMap

KINDS = (
    ExactKind("matern52", monotone=True, depth=1),
    ExactKind("matern52", monotone=True),
    ExactKind("rbf", monotone=True, ripples=True),
    ExactKind("rbf", ripples=True),
    ExactKind("rbf", monotone=True),
    ExactKind("rbf"),
    ExactKind("rbf", start="rough"),
    ExactKind("rbf", monotone=True, additive=True),
    ExactKind("rbf", additive=True, start="fine"),
)
"""The kinds of a surrogate.

Kinds with warps come first. Kinds of one kernel lie side by side, and so do those with ripples: a
warp is applied to the first members, and a kernel to a slice of them, without copies.
"""

STRENGTHS = (1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
"""b of the logarithmic maps, for standardised targets."""

PILOTS = (ExactKind("rbf", monotone=True), ExactKind("rbf", additive=True))
"""Kinds of the models that compare the maps."""

PRIOR = -3.0
"""Log prior probability of each logarithmic map, relative to that of none."""

LARGEST_BEND = 0.3
"""Largest relative change of a map's slope over the deviation of known noise."""

N_BENT, LARGEST_STRETCH = 2, 10.0
"""A map's slope falls by no more than about this factor over the range of so many rows next to the
end, and a tenth of all rows."""

SMALLEST_COMPARED = 8
"""With fewer rows targets are only standardised."""


@torch.no_grad()
def choose_map(rows: Observed, n_steps: int, map_parts: MapParts = map) -> TargetMap:
    """Return the map of targets whose posterior probability is largest.

    Args:
        rows: Rows as members see them, with the targets y.
        n_steps: Number of training steps of the models that compare the maps.
        map_parts: Computes parts of the evidence, perhaps several at once.
    """
    standard = standardise(rows.targets)
    standardised = standard.forward(rows.targets)[0]
    constant = standardised.square().mean() < 0.5  # but for rounding
    if len(rows.targets) < SMALLEST_COMPARED or constant:
        return standard
    noise = 0.0 if rows.variance is None else rows.variance.max().sqrt() / standard.spread
    maps = [replace(standard, warp=warp) for warp in _warps(standardised, float(noise))]
    targets, slopes = (
        torch.stack(each).repeat(len(PILOTS), 1)
        for each in zip(*(each.forward(rows.targets) for each in maps), strict=True)
    )
    variance = None if rows.variance is None else rows.variance * slopes.square()
    kinds = [kind for kind in PILOTS for _ in maps]
    # Kinds without warps draw no random numbers.
    members = ExactModels(kinds, rows.inputs.cpu(), variance is not None, torch.Generator())
    training = ExactTraining(
        members.to(rows.inputs.device),
        rows.inputs,
        targets,
        variance,
        torch.zeros_like(targets, dtype=torch.bool),
        map_parts,
    )
    training.run(n_steps)
    log_densities = slopes.log().sum(-1) - training.negative_log_posteriors()
    by_map = log_densities.reshape(len(PILOTS), len(maps)).logsumexp(0)
    by_map[1:] += PRIOR
    return maps[int(by_map.nan_to_num(nan=-torch.inf).argmax())]


def _warps(standardised: Tensor, noise: float) -> Iterator[OutputMap]:
    """Yield the identity, and logarithmic maps of either direction.

    Maps are nearly straight over the deviation of known noise; else Gaussian noise would not stay
    Gaussian. Nor do they bend before there are some rows: a map that sets the last row apart gives
    it a large density, and says nothing about the others.
    """
    yield OutputMap()
    some = 1 + N_BENT + len(standardised) // 10
    for direction in (1.0, -1.0):
        distances = (direction * standardised).sort(descending=True).values
        nearest = float(distances[0] - distances[min(some, len(distances)) - 1])
        for strength in STRENGTHS:
            if strength * noise <= LARGEST_BEND and strength * nearest <= LARGEST_STRETCH:
                yield LogarithmicMap.of(standardised, direction, strength)


LEVELS = torch.logspace(-11, 0, 23, dtype=torch.float64)
"""Values of σ² that are compared, two in a decade; targets have a variance of about one."""


@torch.no_grad()
def refit_noise(
    factors: ExactFactors, kinds: tuple[ExactKind, ...], rows: Observed
) -> ExactFactors:
    """Return members with the noise that is most probable given rows.

    Only rows side by side can tell a small noise from a smaller one. Where the noise is too large,
    a function that is known looks uncertain, and evaluating it again seems to be worth while.

    Args:
        factors: Tensors of the members.
        kinds: The kind of every member.
        rows: Rows with mapped targets, whose noise is not known.
    """
    points = exact_points(factors, rows.inputs[None])
    kernel = kernel_within(kinds, factors, points)
    residuals = rows.targets - factors.mean[:, None]
    levels = LEVELS.to(points.device)
    misfits = [
        negative_log_evidence(kernel, (level + SMALLEST_NOISE).expand_as(residuals), residuals)
        for level in levels
    ]
    costs = torch.stack(misfits) + negative_log_noise_prior(levels.log())[:, None]
    best = costs.nan_to_num(nan=math.inf).argmin(0)
    return replace(factors, noise=levels[best] + SMALLEST_NOISE)


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
    kinds: Sequence[ExactKind] = KINDS,
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
        some = rows.take(chosen.to(targets.device))
    distinct = some.take(distinct_rows(some.inputs))
    with map_on_cores() as map_parts, flushed_denormals():
        target_map = choose_map(distinct, max(1, n_steps // 2), map_parts)
        learnt = _mapped(distinct, target_map)
        training, weights = _train(learnt, kinds, n_steps, generator, map_parts)
    with torch.no_grad():
        factors = training.members.factors()[0].map(torch.clone)
    if variance is None and len(distinct.targets) < len(some.targets):
        factors = refit_noise(factors, training.members.kinds, _mapped(some, target_map))
    gp = condition(factors, training.members.kinds, _mapped(rows, target_map))
    return Surrogate(gp, weights, target_map, input_range)


def _train(
    rows: Observed,
    kinds: Sequence[ExactKind],
    n_steps: int,
    generator: torch.Generator,
    map_parts: MapParts,
) -> tuple[ExactTraining, Float64[Tensor, " B"]]:
    """Train members of all kinds, and return those that have a weight, with their weights."""
    device = rows.inputs.device
    n_folds = N_FOLDS if len(rows.inputs) >= SMALLEST_FOLDED else 1
    fold = assign_folds(rows.inputs, n_folds, generator)
    numbers = torch.arange(n_folds, device=device).repeat(len(kinds))
    left_out = (fold == numbers[:, None]) & (n_folds > 1)
    members = ExactModels(
        [kind for kind in kinds for _ in range(n_folds)],
        rows.inputs.cpu(),
        rows.variance is not None,
        generator,
    )
    shape = left_out.shape
    training = ExactTraining(
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
    weights = stacked_weights(left_out_densities(training.members, rows, left_out[:n_folds]))
    used = weights.repeat_interleave(n_folds).nonzero()[:, 0]
    training.keep(used)
    training.run(max(1, n_steps // 3))
    return training, weights[weights > 0].repeat_interleave(n_folds) / n_folds


def _mapped(rows: Observed, target_map: TargetMap) -> Observed:
    """Return rows with z in place of y; the variances of noise change by the slope's square."""
    targets, slope = target_map.forward(rows.targets)
    variance = None if rows.variance is None else rows.variance * slope.square()
    return Observed(rows.inputs, targets, variance)


STEPS = 200
"""Number of steps of expectation and maximisation; each costs next to nothing."""

SMALLEST_WEIGHT = 1e-3
"""Kinds of a smaller weight are left out."""


def stacked_weights(log_densities: Float64[Tensor, "K N"]) -> Float64[Tensor, " K"]:
    """Return the weights w that maximise Σ_i log Σ_k w_k p_k(z_i), without the smallest ones.

    Densities of so few rows say little about corrections of the kinds' variances, which
    :mod:`sswim.ensemble.stacking` learns as well.
    """
    n_kinds = len(log_densities)
    weights = log_densities.new_full((n_kinds,), 1 / n_kinds)
    for _ in range(STEPS):
        weights = (log_densities + weights.log()[:, None]).softmax(0).mean(1)
    weights = torch.where(weights < SMALLEST_WEIGHT, 0.0, weights)
    return weights / weights.sum()


def assign_folds(
    inputs: Float64[Tensor, "N D"], n_folds: int, generator: torch.Generator
) -> Int64[Tensor, " N"]:
    """Return the number of every row's fold, at random; rows with equal inputs stay together."""
    _, group = inputs.unique(dim=0, return_inverse=True)
    n_groups = int(group.max()) + 1
    return (torch.randperm(n_groups, generator=generator) % n_folds).to(group.device)[group]


NEAR = 0.003
"""Distance in units of √D and the range of an input, below which a row is a near copy."""


def distinct_rows(inputs: Float64[Tensor, "N D"]) -> Int64[Tensor, " M"]:
    """Return the indices of rows, in order, that are no near copies of an earlier one of them."""
    n_rows, n_inputs = inputs.shape
    near = (torch.cdist(inputs, inputs) < NEAR * math.sqrt(n_inputs)).cpu()
    copy = torch.zeros(n_rows, dtype=torch.bool)
    for row in range(n_rows):
        if not copy[row]:
            copy[row + 1 :] |= near[row, row + 1 :]
    return (~copy).nonzero()[:, 0].to(inputs.device)
