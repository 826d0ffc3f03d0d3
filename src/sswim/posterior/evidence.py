"""The part of the log evidence with a matrix factorisation, and its closed-form gradient.

The notation is that of :mod:`sswim.posterior.linear_regression`. All tensors may have axes *B of
members in front.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.base.cholesky import cholesky, solve_and_invert


def regularise(
    gram: Float64[Tensor, "*B G F F"], ridge: Float64[Tensor, "*B T"]
) -> Float64[Tensor, "*B T F F"]:
    """Return A = ΦᵀWΦ + λI for every target's λ."""
    matrix = gram.expand(*ridge.shape, *gram.shape[-2:]).clone()
    matrix.diagonal(dim1=-2, dim2=-1).add_(ridge[..., None])
    return matrix


def factorise(
    gram: Float64[Tensor, "*B G F F"], ridge: Float64[Tensor, "*B T"]
) -> Float64[Tensor, "*B T F F"]:
    """Return the Cholesky factor L of A = LLᵀ for every target's λ."""
    return cholesky(regularise(gram, ridge), name="matrix ΦᵀΦ + λI of the top-level regression")


def quadratic_and_determinant(
    gram: Float64[Tensor, "*B G F F"],
    moment: Float64[Tensor, "*B F T"],
    energy: Float64[Tensor, "*B T"],
    noise: Float64[Tensor, "*B T"],
    signal: Float64[Tensor, "*B T"],
) -> Float64[Tensor, "*B T"]:
    """Return the quadratic and the determinant term of the negative log evidence.

        ½σ⁻²(zᵀWz − bᵀA⁻¹b) + ½log|A| − ½F log λ,    b = ΦᵀWz

    Args:
        gram: ΦᵀWΦ.
        moment: b.
        energy: zᵀWz.
        noise: σ².
        signal: s².
    """
    value: Tensor = _QuadraticAndDeterminant.apply(gram, moment, energy, noise, signal)
    return value


class _QuadraticAndDeterminant(torch.autograd.Function):
    """The two terms with a closed-form gradient, so that autograd skips the factorisation.

    With r = zᵀWz − bᵀα the derivatives of the value v are

        ∂v/∂A = ½A⁻¹ + ½σ⁻²ααᵀ,    ∂v/∂b = −σ⁻²α,    ∂v/∂(zᵀWz) = ½σ⁻²,
        ∂v/∂λ = tr ∂v/∂A − ½F/λ,    ∂v/∂σ² = −½σ⁻⁴r + s⁻²·∂v/∂λ,    ∂v/∂s² = −λs⁻²·∂v/∂λ.
    """

    @staticmethod
    def forward(
        ctx: Any, gram: Tensor, moment: Tensor, energy: Tensor, noise: Tensor, signal: Tensor
    ) -> Tensor:
        ridge = noise / signal  # λ
        factor = factorise(gram, ridge)
        mean, inverse = solve_and_invert(factor, moment.mT)  # α, (*B, T, F), and A⁻¹
        residual = energy - (moment.mT * mean).sum(-1)  # r
        half_log_determinant = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # ½ log|A|
        ctx.save_for_backward(inverse, mean, residual, noise, signal)
        ctx.targets_share_gram = gram.shape[-3] < noise.shape[-1]
        return 0.5 * residual / noise + half_log_determinant - 0.5 * factor.shape[-1] * ridge.log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        inverse, mean, residual, noise, signal = ctx.saved_tensors
        of_matrix = inverse.addcmul(mean[..., :, None], (mean / noise[..., None])[..., None, :])
        of_matrix *= (0.5 * gradient)[..., None, None]
        of_residual = 0.5 * gradient / noise
        trace = of_matrix.diagonal(dim1=-2, dim2=-1).sum(-1)
        ridge = noise / signal
        of_ridge = trace - 0.5 * inverse.shape[-1] * gradient / ridge
        return (
            of_matrix.sum(-3, keepdim=True) if ctx.targets_share_gram else of_matrix,
            (-2 * of_residual[..., None] * mean).mT,
            of_residual,
            of_ridge / signal - of_residual * residual / noise,
            -of_ridge * ridge / signal,
        )
