"""The evidence of every member's rows, with its gradient in closed form.

The evidence of all members, computed for some members at a time, on several cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.base.cholesky import cholesky
from sswim.surrogate.kernels import KernelForm, kernel_of_form, kernel_slices
from sswim.surrogate.members import MemberFactors, MemberKind


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
        ctx: Any, kinds: tuple[MemberKind, ...], map_parts: MapParts, *tensors: Tensor
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
    kinds: tuple[MemberKind, ...],
    factors: MemberFactors,
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
