"""A surrogate: members with the exact kernel, their weights, and the maps of inputs and targets.

A surrogate is fitted in three steps.

1. Every kind has one member for each fold of the rows, which leaves the fold out while it learns.
   So the kinds are weighed on rows that they have not seen.
2. The members of the kinds that have a weight go on learning, for fewer steps, from all folds.
3. They are conditioned on all rows.

Near copies of rows count only for the level of the noise, and when members are conditioned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.record import Record
from sswim.base.threads import flushed_denormals, map_on_cores
from sswim.members.exact_members import ExactMembers, ExactRows, left_out_densities
from sswim.members.exact_model import ExactKind, ExactModels
from sswim.members.exact_training import ExactTraining, MapParts, refit_noise
from sswim.surrogate.target_map import TargetMap, choose_map


@dataclass(frozen=True)
class Surrogate:
    """A mixture of exact GPs on warped inputs, in the units of the rows."""

    members: ExactMembers
    weights: Float64[Tensor, " B"]
    """Weights of the members, which add up to one."""
    target_map: TargetMap
    input_range: InputRange

    @property
    def batch_shape(self) -> torch.Size:
        """Axes of rows added by :meth:`update`, if these differ from entry to entry of a batch."""
        return self.members.batch_shape

    def predict_jointly(
        self,
        inputs: Float64[Tensor, "*S q D"],
        include_noise: bool = False,
        variance: Float64[Tensor, "*V #q"] | None = None,
    ) -> tuple[Float64[Tensor, "*T q"], Float64[Tensor, "*T q q"]]:
        """Return the mixture's mean and covariance of z at a set of points.

            mean μ = Σ_k w_k μ_k,    covariance Σ_k w_k (C_k + (μ_k − μ)(μ_k − μ)ᵀ)

        Args:
            inputs: Points. There may be a batch of sets.
            include_noise: Whether to add the noise of observations.
            variance: Known variance of the noise, in units of the targets; added if given.
        """
        means, covariances = self.members.predict_jointly(
            self.input_range.scale(inputs)[..., None, :, :]
        )
        weights = self.weights[:, None]
        mean = (weights * means).sum(-2)
        deviations = means - mean[..., None, :]
        between = (weights * deviations).mT @ deviations
        covariance = (weights[..., None] * covariances).sum(-3) + between
        noise = torch.zeros_like(mean)
        if include_noise:
            noise = noise + (self.weights * self.members.factors.noise).sum()
        if variance is not None:
            slope = self.target_map.forward(self.target_map.inverse(mean))[1]
            noise = noise + slope.square() * variance
        return mean, covariance + noise.diag_embed()

    def update(
        self,
        inputs: Float64[Tensor, "*S n D"],
        targets: Float64[Tensor, "*Y n"],
        variance: Float64[Tensor, "*V #n"] | None = None,
    ) -> Surrogate:
        """Condition all members on further rows as well: exactly, as they are.

        Args:
            inputs: Inputs; another set of rows for every entry of a batch, if it has more axes.
            targets: Targets; several for the same inputs, if they have more axes.
            variance: Known variance of the noise of each target; None for the members' own.
        """
        mapped, slope = self.target_map.forward(targets)
        known = None if variance is None else variance * slope.square()
        rows = ExactRows(self.input_range.scale(inputs), mapped, known)
        return replace(self, members=self.members.update(rows))

    def sample(
        self, n: int, generator: torch.Generator
    ) -> Callable[[Float64[Tensor, "*S #n q D"]], Float64[Tensor, "*S n q"]]:
        """Draw n functions from the posterior; each is one of its members' by their weights.

        Returns:
            A function of points, for all n functions or for each, which returns their values. It
            is differentiable.
        """
        if self.batch_shape:
            raise NotImplementedError(
                "Functions are drawn from one posterior. Got a batch of them, of shape "
                f"{tuple(self.batch_shape)}."
            )
        functions = self.members.sample(n, self.weights, generator)
        return lambda inputs: self.target_map.inverse(functions(self.input_range.scale(inputs)))


@dataclass(frozen=True)
class InputRange(Record):
    """The range of every input, which members see as −½ to ½."""

    low: Float64[Tensor, " D"]
    width: Float64[Tensor, " D"]

    @staticmethod
    def of(inputs: Float64[Tensor, "N D"]) -> InputRange:
        """Return the unit cube if all inputs lie in it, else the range of the inputs."""
        low, high = inputs.amin(0), inputs.amax(0)
        if bool((low >= 0).all() and (high <= 1).all()):
            return InputRange(torch.zeros_like(low), torch.ones_like(low))
        width = high - low
        return InputRange(low, torch.where(width > 0, width, 1.0))

    def scale(self, inputs: Float64[Tensor, "*S D"]) -> Float64[Tensor, "*S D"]:
        """Return inputs as members see them."""
        return (inputs - self.low) / self.width - 0.5


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
    rows = some = ExactRows(input_range.scale(inputs), targets, variance)
    if len(targets) > LARGEST_TRAINED:
        chosen = torch.randperm(len(targets), generator=generator)[:LARGEST_TRAINED]
        some = rows.take(chosen.to(targets.device))
    distinct = some.take(distinct_rows(some.inputs))
    with map_on_cores() as map_parts, flushed_denormals():
        target_map = choose_map(distinct, max(1, n_steps // 2), map_parts)
        learnt = _map_targets(distinct, target_map)
        training, weights = _train(learnt, kinds, n_steps, generator, map_parts)
    with torch.no_grad():
        factors = training.models.factors()[0].map(torch.clone)
    if variance is None and len(distinct.targets) < len(some.targets):
        factors = refit_noise(factors, some.inputs, target_map.forward(some.targets)[0])
    members = ExactMembers.condition(factors, _map_targets(rows, target_map))
    return Surrogate(members, weights, target_map, input_range)


def _train(
    rows: ExactRows,
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
    models = ExactModels(
        [kind for kind in kinds for _ in range(n_folds)],
        rows.inputs.cpu(),
        rows.variance is not None,
        generator,
    )
    shape = left_out.shape
    training = ExactTraining(
        models.to(device),
        rows.inputs,
        rows.targets.expand(shape),
        None if rows.variance is None else rows.variance.expand(shape),
        left_out,
        map_parts,
    )
    training.run(n_steps)
    if n_folds == 1:
        return training, rows.targets.new_full((len(kinds),), 1 / len(kinds))
    weights = stacked_weights(left_out_densities(training.models, rows, left_out[:n_folds]))
    used = weights.repeat_interleave(n_folds).nonzero()[:, 0]
    training.keep(used)
    training.run(max(1, n_steps // 3))
    return training, weights[weights > 0].repeat_interleave(n_folds) / n_folds


def _map_targets(rows: ExactRows, target_map: TargetMap) -> ExactRows:
    """Return rows with z in place of y; the variances of noise change by the slope's square."""
    targets, slope = target_map.forward(rows.targets)
    variance = None if rows.variance is None else rows.variance * slope.square()
    return ExactRows(rows.inputs, targets, variance)


N_STACKING_STEPS = 200
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
    for _ in range(N_STACKING_STEPS):
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
