"""The evidence of every member's rows, with its gradient in closed form."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.base.cholesky import cholesky


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
