"""Training of a surrogate: all members at once, by gradients of their log posterior.

Every kind has one member for each fold of the rows, which leaves the fold out while it learns. So
the kinds are weighed on rows that they have not seen. Then the members of the kinds that have a
weight go on learning, for fewer steps, from all rows, and are conditioned on all of them. A row is
left out by noise beyond all measure: so all members have the same rows, and one batch of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.threads import flushed_denormals, map_on_cores
from sswim.model.output_warp import OutputWarp
from sswim.surrogate.exact_gp import Observed, condition
from sswim.surrogate.member_evidence import MapParts, members_evidence
from sswim.surrogate.member_kind import KINDS, MemberKind
from sswim.surrogate.members import Members, member_points
from sswim.surrogate.surrogate import InputRange, Surrogate
from sswim.surrogate.target_map import TargetMap, standardise
from sswim.surrogate.weights import assign_folds, stacked_weights

N_FOLDS = 4
"""Number of folds, and of members of each kind."""

SMALLEST_FOLDED = 8
"""With fewer rows none are left out, and kinds have equal weights."""

LARGEST_TRAINED = 256
"""Largest number of rows that members learn from; they are conditioned on all of them."""

N_STEPS = 120
"""Number of steps of Adam before the kinds are weighed; a third of them follow."""

SCALAR_STEP, SLOPE_STEP, WARP_STEP = 0.2, 0.1, 0.05
"""Largest steps of kernels and noise, of monotone warps, and of warps and the output warp."""

HEAVY_TAIL = 4.5
"""Distance from the mean, in standard deviations, beyond which a target calls for an output warp.
It is needed where values blow up. Where a function is flat in places, an output warp stretches the
flat values, and predictions of the others get worse."""

LEFT_OUT = 1e6
"""Variance of the noise of a row that is left out."""


def fit_surrogate(
    inputs: Float64[Tensor, "N D"],
    targets: Float64[Tensor, " N"],
    variance: Float64[Tensor, " N"] | None,
    generator: torch.Generator,
    kinds: Sequence[MemberKind] = KINDS,
    n_steps: int = N_STEPS,
) -> Surrogate:
    """Fit a surrogate to rows.

    Args:
        inputs: Inputs, in any units.
        targets: Targets, in any units.
        variance: Known variance of the noise of each target; None to learn one for all rows.
        generator: A generator on the CPU; all draws come from it.
        kinds: Kinds of members, in an order as :data:`KINDS` has.
        n_steps: Number of steps before the kinds are weighed.
    """
    input_range = InputRange.of(inputs)
    rows = Observed(input_range.scale(inputs), targets, variance)
    trained = rows
    if len(targets) > LARGEST_TRAINED:
        some = torch.randperm(len(targets), generator=generator)[:LARGEST_TRAINED]
        trained = _take(rows, some.to(targets.device))
    training = _Training(trained, kinds, generator)
    with map_on_cores() as training.map_parts, flushed_denormals():
        training.run(n_steps)
        weights = training.weights()
        used = weights.nonzero()[:, 0]
        if training.n_folds > 1:
            training.keep(used)
            training.run(max(1, n_steps // 3))
    target_map = training.target_map()
    with torch.no_grad():
        factors = training.members.condition()[0].map(torch.clone)
    gp = condition(factors, training.members.kinds, _mapped(rows, target_map))
    return Surrogate(gp, weights[used], target_map, input_range)


class _Training:
    """Members in training."""

    def __init__(
        self, rows: Observed, kinds: Sequence[MemberKind], generator: torch.Generator
    ) -> None:
        inputs, targets = rows.inputs, rows.targets
        device = inputs.device
        self.rows, self.n_kinds = rows, len(kinds)
        self.map_parts: MapParts = map
        self.standard = standardise(targets)
        self.n_folds = N_FOLDS if len(inputs.unique(dim=0)) >= SMALLEST_FOLDED else 1
        fold = assign_folds(inputs, self.n_folds, generator)
        members = [kind for kind in kinds for _ in range(self.n_folds)]
        numbers = torch.arange(self.n_folds, device=device).repeat(self.n_kinds)
        self.left_out = (fold == numbers[:, None]) & (self.n_folds > 1)
        known_noise = rows.variance is not None
        self.members = Members(members, inputs.cpu(), known_noise, generator).to(device)
        self.output_warp: OutputWarp | None = None
        standardised = self.standard.forward(targets)[0]
        if standardised.abs().max() > HEAVY_TAIL:
            self.output_warp = OutputWarp("sinh-arcsinh", 1, 1).to(device)
            self.output_warp.set_range(standardised.min()[None], standardised.max()[None])

    @torch.enable_grad()  # a model may be made where no other gradients are wanted
    def run(self, n_steps: int) -> None:
        """Take steps of Adam, with a step size that rises and falls."""
        warps = [*self.members.layers.parameters()]
        if self.output_warp is not None:
            warps.append(self.output_warp.coordinates)
        groups = [self.members.scalars(), [self.members.monotone.whitened], warps]
        steps = [SCALAR_STEP, SLOPE_STEP, WARP_STEP]
        optimiser = torch.optim.Adam([{"params": group} for group in groups], betas=(0.9, 0.95))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, steps, total_steps=n_steps)
        for _ in range(n_steps):
            optimiser.zero_grad()
            self._objective().backward()
            for parameter in chain(*groups):
                assert parameter.grad is not None
                # A matrix at the edge of what float64 can factorise has wild gradients.
                torch.nan_to_num_(parameter.grad, nan=0.0, posinf=0.0, neginf=0.0)
            optimiser.step()
            schedule.step()

    def keep(self, used: Int64[Tensor, " S"]) -> None:
        """Keep some members, and leave no row out any more."""
        self.members = self.members.select(used)
        self.left_out = torch.zeros_like(self.left_out[: len(used)])

    def target_map(self) -> TargetMap:
        """Return the map of targets as it has been learnt."""
        if self.output_warp is None:
            return self.standard
        with torch.no_grad():
            warp = self.output_warp.condition()[0].map(torch.clone)
        return replace(self.standard, warp=warp)

    @torch.no_grad()
    def weights(self) -> Float64[Tensor, " B"]:
        """Return the weights of all members, from the rows that they have left out."""
        n_members = len(self.left_out)
        if self.n_folds == 1:
            return self.left_out.new_full((n_members,), 1 / n_members, dtype=torch.float64)
        target_map = self.target_map()
        rows = _mapped(self.rows, target_map)
        factors, _ = self.members.condition()
        densities = torch.zeros(self.n_kinds, len(rows.targets), dtype=torch.float64)
        for fold in range(self.n_folds):
            some = torch.arange(fold, n_members, self.n_folds, device=rows.inputs.device)
            left_out = self.left_out[fold]
            seen, unseen = _take(rows, ~left_out), _take(rows, left_out)
            kinds = self.members.kinds[fold :: self.n_folds]
            gp = condition(factors.select(some), kinds, seen)
            mean, covariance = gp.joint(unseen.inputs[None])
            variance = covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0)
            variance = variance + unseen.noise(gp.factors)
            squared = (unseen.targets - mean).square() / variance
            densities[:, left_out.cpu()] = -0.5 * (squared + variance.log()).cpu()
        kind_weights = stacked_weights(densities.nan_to_num(nan=-1e6))
        weights = kind_weights.repeat_interleave(self.n_folds) / self.n_folds
        return weights.to(self.left_out.device)

    def _objective(self) -> Float64[Tensor, ""]:
        """Return the sum over members of their negative log posteriors."""
        factors, prior = self.members.condition()
        target_map = self.standard
        if self.output_warp is not None:
            output, output_prior = self.output_warp.condition()
            target_map = replace(self.standard, warp=output)
            prior = prior + output_prior
        rows = _mapped(self.rows, target_map)
        points = member_points(factors, rows.inputs[None])
        misfit = members_evidence(
            self.members.kinds,
            factors,
            points,
            rows.noise(factors) + LEFT_OUT * self.left_out.double(),
            rows.targets - factors.mean[:, None],
            self.map_parts,
        )
        slope = target_map.forward(self.rows.targets)[1]
        log_slope = (~self.left_out * slope.log()).sum(-1)
        return (prior + misfit - log_slope).sum()


def _mapped(rows: Observed, target_map: TargetMap) -> Observed:
    """Return rows with z in place of y; the variances of noise change by the slope's square."""
    targets, slope = target_map.forward(rows.targets)
    variance = None if rows.variance is None else rows.variance * slope.square()
    return Observed(rows.inputs, targets, variance)


def _take(rows: Observed, which: Tensor) -> Observed:
    """Return some of the rows."""
    variance = None if rows.variance is None else rows.variance[which]
    return Observed(rows.inputs[which], rows.targets[which], variance)
