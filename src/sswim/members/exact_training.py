"""Training of members with the exact kernel, all of them at once.

Members learn by gradients of their log posterior densities: the log evidence of the rows that they
see, plus the log prior of their parameters. The evidence and its gradients are computed together,
in parts of a few members each, which several cores can share.
"""

from __future__ import annotations

import math
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
    SMALLEST_NOISE,
    ExactFactors,
    ExactKind,
    ExactModels,
    KernelForm,
    exact_points,
    kernel_of_form,
    kernel_slices,
    kernel_within,
    negative_log_noise_prior,
)

SCALAR_STEP, SLOPE_STEP, WARP_STEP = 0.2, 0.1, 0.05
"""Largest steps of kernels and noise, of monotone warps, and of warps."""

LEFT_OUT = 1e6
"""Variance of the noise of a row that is left out: so all members have the same rows, and one batch
of matrices."""

PART_SIZE = 2**16
"""Largest number of entries of the matrices of a part, if these are of several members. So small
matrices stay in the processor's cache, and their memory is used again: that of larger ones comes
anew from the system every time."""

MapParts = Callable[..., Iterable[Any]]
"""Applies a function to every part, in order or at once, and returns the results in order."""


@dataclass
class ExactTraining:
    """Members in training."""

    models: ExactModels
    """The members, which are changed."""
    inputs: Float64[Tensor, "N D"]
    """Inputs of the rows, as members see them."""
    targets: Float64[Tensor, "B N"]
    """z of every row, which every member may see through a map of its own."""
    variance: Float64[Tensor, "B N"] | None
    """Known variance of the noise of each z; None to learn one for all rows."""
    left_out: Bool[Tensor, "B N"]
    """The rows that a member does not learn from."""
    map_parts: MapParts = map
    """Computes parts of the evidence, perhaps several at once."""

    @torch.enable_grad()  # a model may be made where no other gradients are wanted
    def run(self, n_steps: int) -> None:
        """Take steps of Adam, with a step size that rises and falls."""
        groups = [
            (self.models.scalars(), SCALAR_STEP),
            ([self.models.monotone.whitened], SLOPE_STEP),
            ([*self.models.layers.parameters()], WARP_STEP),
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
        self.models = self.models.select(used)
        self.targets, self.left_out = self.targets[used], torch.zeros_like(self.left_out[used])
        if self.variance is not None:
            self.variance = self.variance[used]

    def negative_log_posteriors(self) -> Float64[Tensor, " B"]:
        """Return the negative log posterior density of every member, up to constants."""
        factors, prior = self.models.factors()
        noise = factors.noise[:, None] + LEFT_OUT * self.left_out.double()
        if self.variance is not None:
            noise = noise + self.variance
        misfit = _MembersEvidence.apply(
            factors.kinds,
            self.map_parts,
            exact_points(factors, self.inputs[None]),
            factors.signal,
            factors.interaction,
            factors.ripple_signal,
            factors.ripple_scale,
            noise,
            self.targets - factors.mean[:, None],
        )
        return prior + misfit


class _MembersEvidence(torch.autograd.Function):
    """The negative log evidence of every member, whose gradients are computed with it, by parts.

    Members have nothing to do with each other here. So the gradient of a member's tensors is that
    of its own evidence, times the gradient that comes back for it.
    """

    @staticmethod
    def forward(
        ctx: Any, kinds: tuple[ExactKind, ...], map_parts: MapParts, *tensors: Tensor
    ) -> Tensor:
        n_rows = tensors[0].shape[-2]

        def differentiate(part: tuple[KernelForm, slice]) -> tuple[Tensor, ...]:
            form, members = part
            with torch.enable_grad():
                leaves = [tensor[members].detach().requires_grad_() for tensor in tensors]
                kernel = kernel_of_form(form, *leaves[:5])
                value = _NegativeLogEvidence.apply(kernel, *leaves[5:])
                slopes = torch.autograd.grad(value.sum(), leaves, materialize_grads=True)
            return value.detach(), *slopes

        parts = kernel_slices(kinds, largest=max(1, PART_SIZE // n_rows**2))
        values, *slopes = map(torch.cat, zip(*map_parts(differentiate, parts), strict=True))
        ctx.save_for_backward(*slopes)
        return values

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        slopes = (
            gradient.reshape(-1, *(1,) * (slope.ndim - 1)) * slope for slope in ctx.saved_tensors
        )
        return None, None, *slopes


class _NegativeLogEvidence(torch.autograd.Function):
    """−log N(r; 0, A) = ½rᵀA⁻¹r + ½log|A| of every member, up to a constant, with A = K + Λ.

    Its inputs are K, symmetric as its gradient is, the diagonal of Λ, and r, the targets without
    the mean.

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
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        factor, residual = ctx.saved_tensors
        slope = torch.cholesky_inverse(factor)
        alpha = (slope @ residual[..., None])[..., 0]
        slope.sub_(alpha[..., :, None] * alpha[..., None, :])
        slope.mul_(0.5 * gradient[..., None, None])
        return slope, slope.diagonal(dim1=-2, dim2=-1).clone(), gradient[..., None] * alpha


LEVELS = torch.logspace(-11, 0, 23, dtype=torch.float64)
"""Values of σ² that are compared, two in a decade; targets have a variance of about one."""


@torch.no_grad()
def refit_noise(
    factors: ExactFactors, inputs: Float64[Tensor, "N D"], targets: Float64[Tensor, " N"]
) -> ExactFactors:
    """Return members with the noise that is most probable given rows, and all else as it is.

    Only rows side by side can tell a small noise from a smaller one. Where the noise is too large,
    a function that is known looks uncertain, and evaluating it again seems to be worth while.

    Args:
        factors: Tensors of the members.
        inputs: Inputs of the rows, as members see them.
        targets: z of every row, whose noise is not known.
    """
    points = exact_points(factors, inputs[None])
    kernel = kernel_within(factors, points)
    residuals = targets - factors.mean[:, None]
    levels = LEVELS.to(points.device)
    noises = [(level + SMALLEST_NOISE).expand_as(residuals) for level in levels]
    misfits = [_NegativeLogEvidence.apply(kernel, noise, residuals) for noise in noises]
    costs = torch.stack(misfits) + negative_log_noise_prior(levels.log())[:, None]
    best = costs.nan_to_num(nan=math.inf).argmin(0)
    return replace(factors, noise=levels[best] + SMALLEST_NOISE)
