"""Training of members: all at once, by gradients of their log posteriors.

Weights of the kinds of members, from rows that their training left out.

Rows that are not near copies of others, which is what members learn from.

A search for the best value ends up with many rows side by side. Each of them would count as much as
a row that is far from all others: members would explain the one place where the rows are, and be
too sure of all others. So they learn from one row of each group, and are conditioned on all rows.
"""

from __future__ import annotations

import math
from itertools import chain

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from sswim.surrogate.evidence import MapParts, members_evidence
from sswim.surrogate.members import Members, member_points

SCALAR_STEP, SLOPE_STEP, WARP_STEP = 0.2, 0.1, 0.05
"""Largest steps of kernels and noise, of monotone warps, and of warps."""

LEFT_OUT = 1e6
"""Variance of the noise of a row that is left out: so all members have the same rows, and one batch
of matrices."""


class MemberTraining:
    """Members in training.

    Args:
        members: The members, which are changed.
        inputs: Inputs of the rows, as members see them.
        targets: z of every row, which every member may see through a map of its own.
        variance: Known variance of the noise of each z; None to learn one for all rows.
        left_out: The rows that a member does not learn from.
        map_parts: Computes parts of the evidence, perhaps several at once.
    """

    def __init__(
        self,
        members: Members,
        inputs: Float64[Tensor, "N D"],
        targets: Float64[Tensor, "B N"],
        variance: Float64[Tensor, "B N"] | None,
        left_out: Bool[Tensor, "B N"],
        map_parts: MapParts = map,
    ) -> None:
        self.members, self.inputs, self.targets = members, inputs, targets
        self.variance, self.left_out, self.map_parts = variance, left_out, map_parts

    @torch.enable_grad()  # a model may be made where no other gradients are wanted
    def run(self, n_steps: int) -> None:
        """Take steps of Adam, with a step size that rises and falls."""
        groups = [
            (self.members.scalars(), SCALAR_STEP),
            ([self.members.monotone.whitened], SLOPE_STEP),
            ([*self.members.layers.parameters()], WARP_STEP),
        ]
        parameters, steps = zip(*(group for group in groups if group[0]), strict=True)
        optimiser = torch.optim.Adam([{"params": group} for group in parameters], betas=(0.9, 0.95))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, list(steps), total_steps=n_steps)
        for _ in range(n_steps):
            optimiser.zero_grad()
            self.negative_log_posteriors().sum().backward()
            for parameter in chain(*parameters):
                assert parameter.grad is not None
                # A matrix at the edge of what float64 can factorise has wild gradients.
                torch.nan_to_num_(parameter.grad, nan=0.0, posinf=0.0, neginf=0.0)
            optimiser.step()
            schedule.step()

    def keep(self, used: Int64[Tensor, " S"]) -> None:
        """Keep some members, in ascending order, and leave no row out any more."""
        self.members = self.members.select(used)
        self.targets, self.left_out = self.targets[used], torch.zeros_like(self.left_out[used])
        if self.variance is not None:
            self.variance = self.variance[used]

    def negative_log_posteriors(self) -> Float64[Tensor, " B"]:
        """Return the negative log posterior density of every member, up to constants."""
        factors, prior = self.members.condition()
        noise = factors.noise[:, None] + LEFT_OUT * self.left_out.double()
        if self.variance is not None:
            noise = noise + self.variance
        misfit = members_evidence(
            self.members.kinds,
            factors,
            member_points(factors, self.inputs[None]),
            noise,
            self.targets - factors.mean[:, None],
            self.map_parts,
        )
        return prior + misfit


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
