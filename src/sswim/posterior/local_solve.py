"""The local solution: rows given their neighbours, with closed-form gradients.

A row x and its m neighbours N have targets z and the covariance s²K, with noise on the diagonal:

    K = [ K_N  k ]        K_N = LLᵀ,   p = (−K_N⁻¹k, 1)/l,   l² = κ − kᵀK_N⁻¹k.
        [ kᵀ   κ ]

All that the density of x given N needs are six numbers,

    log l,   a = pᵀz,   o = pᵀ1,   zᵀK_N⁻¹z,   zᵀK_N⁻¹1,   1ᵀK_N⁻¹1.

With α = K_N⁻¹z and β = K_N⁻¹1 (and zero at x), their differentials are

    d log l = ½pᵀdK p,   da = −pᵀdK α − ½a·pᵀdK p,   do = −pᵀdK β − ½o·pᵀdK p,
    d zᵀK_N⁻¹z = −αᵀdK α,   d zᵀK_N⁻¹1 = −αᵀdK β,   d 1ᵀK_N⁻¹1 = −βᵀdK β,

so the gradient of any function of them with respect to K is VCVᵀ, with V = (p, α, β) and a 3 × 3
matrix C. No inverse is formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.base.cholesky import cholesky
from sswim.base.record import Record


@dataclass(frozen=True)
class LocalNumbers(Record):
    """The six numbers of every row; see the module."""

    log_deviation: Float[Tensor, "*B"]
    """log l, where l² is the variance of z(x) given its neighbours, in units of s²."""
    residual: Float[Tensor, "*B"]
    """a, the deviation of z(x) from a zero-mean prediction, in units of l."""
    constant: Float[Tensor, "*B"]
    """o, the same for targets that are all one."""
    square: Float[Tensor, "*B"]
    """zᵀK_N⁻¹z"""
    product: Float[Tensor, "*B"]
    """zᵀK_N⁻¹1"""
    mass: Float[Tensor, "*B"]
    """1ᵀK_N⁻¹1"""


def local_numbers(
    covariance: Float[Tensor, "*B n n"],
    targets: Float[Tensor, "*B n"],
    ones: Float[Tensor, "*B n"],
) -> LocalNumbers:
    """Return the six numbers; differentiable in covariance and targets.

    Args:
        covariance: K of the m neighbours and, last, the row itself.
        targets: z of the same.
        ones: One for every row that is there, zero for the place of a missing neighbour.
    """
    return LocalNumbers(*_LocalNumbers.apply(covariance, targets, ones))


class _LocalNumbers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, covariance: Tensor, targets: Tensor, ones: Tensor) -> tuple[Tensor, ...]:
        factor = cholesky(covariance, "covariance of a neighbourhood")
        sides = torch.stack((targets, ones), dim=-1)
        whitened = torch.linalg.solve_triangular(factor, sides, upper=False)
        of_neighbours, of_row = whitened[..., :-1, :], whitened[..., -1, :]
        deviation = factor[..., -1, -1]
        last_row = factor[..., -1, :-1]  # L⁻¹k
        vectors = torch.linalg.solve_triangular(
            factor[..., :-1, :-1].mT,
            torch.cat((last_row[..., None], of_neighbours), dim=-1),
            upper=True,
        )
        p = torch.cat((-vectors[..., 0], torch.ones_like(deviation)[..., None]), dim=-1)
        p = p / deviation[..., None]
        alpha_beta = torch.nn.functional.pad(vectors[..., 1:], (0, 0, 0, 1))
        products = of_neighbours.mT @ of_neighbours
        residual, constant = of_row.unbind(-1)
        ctx.save_for_backward(p, alpha_beta, residual, constant)
        return (
            deviation.log(),
            residual.clone(),
            constant.clone(),
            products[..., 0, 0].clone(),
            products[..., 0, 1].clone(),
            products[..., 1, 1].clone(),
        )

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,
        of_deviation: Tensor,
        of_residual: Tensor,
        of_constant: Tensor,
        of_square: Tensor,
        of_product: Tensor,
        of_mass: Tensor,
    ) -> tuple[Tensor | None, Tensor | None, None]:
        p, alpha_beta, residual, constant = ctx.saved_tensors
        alpha, beta = alpha_beta.unbind(-1)
        of_covariance = of_targets = None
        if ctx.needs_input_grad[0]:
            # The rows of CVᵀ.
            of_p = 0.5 * (of_deviation - residual * of_residual - constant * of_constant)
            first = of_p[..., None] * p
            first = first - 0.5 * (of_residual[..., None] * alpha + of_constant[..., None] * beta)
            second = -0.5 * of_residual[..., None] * p - of_square[..., None] * alpha
            second = second - 0.5 * of_product[..., None] * beta
            third = -0.5 * of_constant[..., None] * p - 0.5 * of_product[..., None] * alpha
            third = third - of_mass[..., None] * beta
            left = torch.stack((p, alpha, beta), dim=-1)  # V
            of_covariance = left @ torch.stack((first, second, third), dim=-2)
        if ctx.needs_input_grad[1]:
            of_targets = (
                of_residual[..., None] * p
                + 2 * of_square[..., None] * alpha
                + of_product[..., None] * beta
            )
        return of_covariance, of_targets, None
