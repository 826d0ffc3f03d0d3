"""Members with the exact kernel, conditioned on all rows: the limit of features for few rows.

The members of all kinds are one batch: they are trained together, by gradients of their log
posteriors, predict the rows that they left out, and are conditioned on all rows.

With the rows' kernel K + Λ = LLᵀ and β = L⁻¹(z − b), a set of points has

    A = L⁻¹k(X, x),    mean b + Aᵀβ,    covariance k(x, x) − AᵀA.

Further rows (x', z'), perhaps another set of them for every entry of a batch, leave L as it is:

    A' = L⁻¹k(X, x'),    SSᵀ = k(x', x') + Λ' − A'ᵀA',    E = S⁻¹(k(x', x) − A'ᵀA),
    γ = S⁻¹(z' − b − A'ᵀβ),    mean b + Aᵀβ + Eᵀγ,    covariance k(x, x) − AᵀA − EᵀE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.base.cholesky import cholesky
from sswim.members.exact_model import (
    ExactFactors,
    ExactKind,
    ExactModels,
    KernelForm,
    exact_points,
    kernel_between,
    kernel_of_form,
    kernel_slices,
    kernel_within,
)

_MATRIX = "kernel matrix of the rows"


@dataclass(frozen=True)
class Observed:
    """Rows that members are conditioned on."""

    inputs: Float64[Tensor, "*S n D"]
    """x, between −½ and ½ or somewhat outside."""
    targets: Float64[Tensor, "*Y n"]
    """z, the mapped targets; there may be several of them for the same inputs."""
    variance: Float64[Tensor, "*V n"] | None
    """Known variance of the noise of each row, in units of z; None where it is the members' σ²."""

    def noise(self, factors: ExactFactors) -> Float64[Tensor, "*V B n"]:
        """Return the noise of every row for every member, the diagonal of Λ."""
        own = factors.noise[:, None]
        if self.variance is None:
            return own.expand(-1, self.inputs.shape[-2])
        return own + self.variance[..., None, :]

    def take(self, which: Tensor) -> Observed:
        """Return some of the rows, where targets and inputs are of the same rows."""
        variance = None if self.variance is None else self.variance[which]
        return Observed(self.inputs[which], self.targets[which], variance)

    def append(self, others: Observed) -> Observed:
        """Return these rows followed by others, broadcast to the batch axes of both."""
        inputs = _joined(self.inputs, others.inputs, -2)
        targets = _joined(self.targets, others.targets, -1)
        if self.variance is None and others.variance is None:
            return Observed(inputs, targets, None)
        known = [
            torch.zeros_like(rows.targets) if rows.variance is None else rows.variance
            for rows in (self, others)
        ]
        return Observed(inputs, targets, _joined(known[0], known[1], -1))


@dataclass(frozen=True)
class _Further:
    """Further rows that members are conditioned on, in the notation of the module."""

    rows: Observed
    points: Float64[Tensor, "*S B n D"]
    towards: Float64[Tensor, "*S B N n"]
    """A'."""
    factor: Float64[Tensor, "*V B n n"]
    """S."""
    whitened: Float64[Tensor, "*Y B n"]
    """γ."""


@dataclass(frozen=True)
class ExactMembers:
    """The exact GPs of all members, conditioned on rows."""

    factors: ExactFactors
    kinds: tuple[ExactKind, ...]
    """The kind of every member."""
    rows: Observed
    points: Float64[Tensor, "B N D"]
    """The warped inputs of the rows."""
    factor: Float64[Tensor, "B N N"]
    """L."""
    whitened: Float64[Tensor, "B N"]
    """β."""
    further: _Further | None = None

    @property
    def batch_shape(self) -> torch.Size:
        """Axes of further rows, if these differ from entry to entry of a batch."""
        if self.further is None:
            return torch.Size()
        return self.further.whitened.shape[:-2]

    def joint(
        self, inputs: Float64[Tensor, "*S #B q D"]
    ) -> tuple[Float64[Tensor, "*T B q"], Float64[Tensor, "*T B q q"]]:
        """Return mean and covariance of the function at a set of points, for every member.

        Args:
            inputs: Points, for all members or for each. There may be a batch of sets, whose axes
                are broadcast with those of further rows.
        """
        points = exact_points(self.factors, inputs)
        towards = self._towards(points)  # A
        mean = self.factors.mean[:, None] + (towards.mT @ self.whitened[..., None])[..., 0]
        covariance = self._kernel(points) - towards.mT @ towards
        if self.further is None:
            return mean, covariance
        own = kernel_between(self.kinds, self.factors, self.further.points, points)
        rest = own - self.further.towards.mT @ towards
        shape = torch.broadcast_shapes(self.further.factor.shape[:-2], rest.shape[:-2])
        factor = self.further.factor.expand(*shape, -1, -1)
        explained = torch.linalg.solve_triangular(factor, rest, upper=False)  # E
        mean = mean + (explained.mT @ self.further.whitened[..., None])[..., 0]
        covariance = covariance - explained.mT @ explained
        return mean, covariance.expand(*mean.shape, mean.shape[-1])

    def update(self, rows: Observed) -> ExactMembers:
        """Return the members conditioned on further rows as well: exactly, as they are."""
        if self.further is not None:
            rows = self.further.rows.append(rows)
        elif rows.inputs.ndim == 2 and rows.targets.ndim == 1:
            return condition(self.factors, self.kinds, self.rows.append(rows))
        points = exact_points(self.factors, rows.inputs[..., None, :, :])
        towards = self._towards(points)  # A'
        matrix = self._kernel(points) + rows.noise(self.factors).diag_embed()
        factor = cholesky(matrix - towards.mT @ towards, name=_MATRIX)  # S
        predicted = (towards.mT @ self.whitened[..., None])[..., 0]
        residual = rows.targets[..., None, :] - self.factors.mean[:, None] - predicted
        shape = torch.broadcast_shapes(factor.shape[:-2], residual.shape[:-1])
        whitened = torch.linalg.solve_triangular(
            factor.expand(*shape, -1, -1), residual.expand(*shape, -1)[..., None], upper=False
        )
        return replace(self, further=_Further(rows, points, towards, factor, whitened[..., 0]))

    def select(self, indices: Int64[Tensor, " S"]) -> ExactMembers:
        """Return some members, in ascending order, before any further rows; they may repeat."""
        return replace(
            self,
            factors=self.factors.select(indices),
            kinds=tuple(self.kinds[index] for index in indices.tolist()),
            points=self.points[indices],
            factor=self.factor[indices],
            whitened=self.whitened[indices],
            further=None,
        )

    def _towards(self, points: Float64[Tensor, "*S B q D"]) -> Float64[Tensor, "*S B N q"]:
        """Return L⁻¹k(X, x)."""
        # The axes of sets become columns, so that L is not copied for each of them.
        sets, (n_members, n_points, n_inputs) = points.shape[:-3], points.shape[-3:]
        columns = points.movedim(-3, 0).reshape(n_members, sets.numel() * n_points, n_inputs)
        kernel = kernel_between(self.kinds, self.factors, self.points, columns)
        solved = torch.linalg.solve_triangular(self.factor, kernel, upper=False)
        n_rows = self.points.shape[1]
        return solved.reshape(n_members, n_rows, *sets, n_points).movedim((0, 1), (-3, -2))

    def _kernel(self, points: Float64[Tensor, "*S B q D"]) -> Float64[Tensor, "*S B q q"]:
        return kernel_within(self.kinds, self.factors, points)


def condition(factors: ExactFactors, kinds: tuple[ExactKind, ...], rows: Observed) -> ExactMembers:
    """Condition members on rows."""
    points = exact_points(factors, rows.inputs[None])
    kernel = kernel_within(kinds, factors, points)
    factor = cholesky(kernel + rows.noise(factors).diag_embed(), name=_MATRIX)
    residual = rows.targets - factors.mean[:, None]
    whitened = torch.linalg.solve_triangular(factor, residual[..., None], upper=False)
    return ExactMembers(factors, kinds, rows, points, factor, whitened[..., 0])


def _joined(first: Tensor, second: Tensor, axis: int) -> Tensor:
    """Concatenate two tensors along an axis, after broadcasting the axes before it."""
    n_last = -axis
    batch = torch.broadcast_shapes(first.shape[:-n_last], second.shape[:-n_last])
    parts = [each.expand(*batch, *each.shape[-n_last:]) for each in (first, second)]
    return torch.cat(parts, dim=axis)


@torch.no_grad()
def left_out_densities(
    members: ExactModels, rows: Observed, folds: Bool[Tensor, "F N"]
) -> Float64[Tensor, "K N"]:
    """Return the log density of every row by every kind's member that has left it out."""
    factors, _ = members.factors()
    n_members, n_folds = len(members.kinds), len(folds)
    densities = rows.targets.new_zeros(n_members // n_folds, len(rows.targets))
    for fold, left_out in enumerate(folds):
        some = torch.arange(fold, n_members, n_folds, device=rows.inputs.device)
        seen, unseen = rows.take(~left_out), rows.take(left_out)
        gp = condition(factors.select(some), members.kinds[fold::n_folds], seen)
        mean, covariance = gp.joint(unseen.inputs[None])
        variance = covariance.diagonal(dim1=-2, dim2=-1).clamp(min=0)
        variance = variance + unseen.noise(gp.factors)
        squared = (unseen.targets - mean).square() / variance
        densities[:, left_out] = -0.5 * (squared + variance.log())
    return densities.nan_to_num(nan=-1e6)


SCALAR_STEP, SLOPE_STEP, WARP_STEP = 0.2, 0.1, 0.05
"""Largest steps of kernels and noise, of monotone warps, and of warps."""

LEFT_OUT = 1e6
"""Variance of the noise of a row that is left out: so all members have the same rows, and one batch
of matrices."""


class ExactTraining:
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
        members: ExactModels,
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
        factors, prior = self.members.factors()
        noise = factors.noise[:, None] + LEFT_OUT * self.left_out.double()
        if self.variance is not None:
            noise = noise + self.variance
        misfit = members_evidence(
            self.members.kinds,
            factors,
            exact_points(factors, self.inputs[None]),
            noise,
            self.targets - factors.mean[:, None],
            self.map_parts,
        )
        return prior + misfit


class _NegativeLogEvidence(torch.autograd.Function):
    """½rᵀA⁻¹r + ½log|A| of A = K + Λ, where Λ is diagonal.

    With α = A⁻¹r the gradients are ½(A⁻¹ − ααᵀ) of A and α of r: half the cost of differentiating a
    Cholesky factorisation.
    """

    @staticmethod
    def forward(ctx: Any, kernel: Tensor, noise: Tensor, residual: Tensor) -> Tensor:
        matrix = kernel.clone()
        matrix.diagonal(dim1=-2, dim2=-1).add_(noise)
        factor = cholesky(matrix, name="kernel matrix of the rows")
        whitened = torch.linalg.solve_triangular(factor, residual[..., None], upper=False)[..., 0]
        ctx.save_for_backward(factor, residual)
        log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 0.5 * whitened.square().sum(-1) + log_root

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        factor, residual = ctx.saved_tensors
        of_matrix = torch.cholesky_inverse(factor)
        alpha = (of_matrix @ residual[..., None])[..., 0]
        of_matrix.sub_(alpha[..., :, None] * alpha[..., None, :])
        of_matrix.mul_(0.5 * of_value[..., None, None])
        of_noise = of_matrix.diagonal(dim1=-2, dim2=-1).clone()
        return of_matrix, of_noise, of_value[..., None] * alpha


def negative_log_evidence(
    kernel: Float64[Tensor, "B N N"],
    noise: Float64[Tensor, "B N"],
    residual: Float64[Tensor, "B N"],
) -> Float64[Tensor, " B"]:
    """Return −log N(r; 0, K + Λ) of every member, up to a constant.

    Args:
        kernel: K, symmetric; its gradient is symmetric too.
        noise: The diagonal of Λ.
        residual: r, the targets without the mean.
    """
    return _NegativeLogEvidence.apply(kernel, noise, residual)


PART_SIZE = 2**16
"""Largest number of entries of the matrices of a part, if these are of several members. So small
matrices stay in the processor's cache, and their memory is used again: that of larger ones comes
anew from the system every time."""

Part = tuple[KernelForm, slice]
"""The members of a part, and the form of their kernels."""

MapParts = Callable[[Callable[[Part], Any], Iterable[Part]], Iterable[Any]]
"""Applies a function to every part, in order or at once, and returns the results in order."""


class _MembersEvidence(torch.autograd.Function):
    """The evidence of every member, whose gradients are computed with it, part by part.

    Members have nothing to do with each other here. So the gradient of a member's tensors is that
    of its own evidence, times the gradient that comes back for it.
    """

    @staticmethod
    def forward(
        ctx: Any, kinds: tuple[ExactKind, ...], map_parts: MapParts, *tensors: Tensor
    ) -> Tensor:
        n_rows = tensors[0].shape[-2]

        def differentiate(part: Part) -> tuple[Tensor, ...]:
            form, members = part
            with torch.enable_grad():
                leaves = [each[members].detach().requires_grad_() for each in tensors]
                kernel = kernel_of_form(form, *leaves[:5])
                value = negative_log_evidence(kernel, *leaves[5:])
                slopes = torch.autograd.grad(value.sum(), leaves, materialize_grads=True)
            return value.detach(), *slopes

        parts = kernel_slices(kinds, largest=max(1, PART_SIZE // n_rows**2))
        values, *slopes = map(torch.cat, zip(*map_parts(differentiate, parts), strict=True))
        ctx.save_for_backward(*slopes)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_values: Tensor) -> tuple[Tensor | None, ...]:
        slopes = (
            of_values.reshape(-1, *(1,) * (each.ndim - 1)) * each for each in ctx.saved_tensors
        )
        return None, None, *slopes


def members_evidence(
    kinds: tuple[ExactKind, ...],
    factors: ExactFactors,
    points: Float64[Tensor, "B N D"],
    noise: Float64[Tensor, "B N"],
    residuals: Float64[Tensor, "B N"],
    map_parts: MapParts = map,
) -> Float64[Tensor, " B"]:
    """Return −log N(r; 0, K + Λ) of every member, up to a constant.

    Args:
        kinds: The kinds of the members.
        factors: Tensors of the members, of which those of the kernels are used.
        points: Warped rows in units of the length-scales.
        noise: The diagonal of Λ.
        residuals: r, the targets without the mean.
        map_parts: Computes the parts, perhaps several at once.
    """
    kernels = (
        factors.signal,
        factors.interaction,
        factors.ripple_signal,
        factors.ripple_scale,
    )
    return _MembersEvidence.apply(kinds, map_parts, points, *kernels, noise, residuals)
