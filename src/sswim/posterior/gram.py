"""The products ΦᵀWΦ and ΦᵀWz of many rows, with their own gradients.

Training spends most of its time here. All tensors may have axes *B of members in front.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

_PANELS = 4
"""Of a symmetric product, whose lower blocks are copies: 5/8 of the operations."""

_FEWEST_FEATURES = 128
"""For which panels pay."""

_FEWEST_ROWS_ON_GPU = 100_000
"""Of all members: a GPU is not filled by panels of fewer."""


def weighted_sums(
    features: Float[Tensor, "*B N F"],
    weighted: Float[Tensor, "*#B N T"],
    weight: Float[Tensor, "*#B N G"] | None = None,
    gradients_only: bool = False,
) -> tuple[Float64[Tensor, "*B G F F"], Float64[Tensor, "*B F T"]]:
    """ΦᵀWΦ, the one product of size N·F² that cannot be avoided, and ΦᵀWz from Wz.

    Where nothing but the gradient is wanted it can be: then ΦᵀWΦ is zero, its gradient the same.
    """
    gram, moment = _WeightedSums.apply(features, weighted, weight, gradients_only)
    return gram, moment


class _WeightedSums(torch.autograd.Function):
    """ΦᵀWΦ and ΦᵀWz, with one product of size N·F² as their backward where autograd takes two.

    Φ̄ = WΦ(Ḡ + Ḡᵀ) + (Wz)m̄ᵀ
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weighted: Tensor,
        weight: Tensor | None,
        gradients_only: bool,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(features, weighted, weight)
        if gradients_only:
            n_matrices, n_features = 1 if weight is None else weight.shape[-1], features.shape[-1]
            shape = (*features.shape[:-2], n_matrices, n_features, n_features)
            product = features.new_zeros(()).expand(shape)
        elif weight is None:
            product = _symmetric(features, features)[..., None, :, :]
        else:
            products = [_symmetric(features, features * column) for column in _columns(weight)]
            product = torch.stack(products, dim=-3)
        moment = (weighted.mT @ features).mT  # much faster than the product ΦᵀWz as it stands
        return product.to(torch.float64), moment.to(torch.float64)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_gram: Tensor, of_moment: Tensor) -> tuple[Tensor | None, ...]:
        features, weighted, weight = ctx.saved_tensors
        of_gram, of_moment = of_gram.to(features.dtype), of_moment.to(features.dtype)
        symmetric = (of_gram + of_gram.mT).unbind(-3)
        of_weight = None
        if weight is None:
            [matrix] = symmetric
            slopes = _add_product(_outer(weighted, of_moment), features, matrix)
        else:
            products = [features @ matrix for matrix in symmetric]  # Φ(Ḡ + Ḡᵀ)
            slopes = _outer(weighted, of_moment)
            for product, column in zip(products, _columns(weight), strict=True):
                slopes = slopes.addcmul_(product, column)
            if ctx.needs_input_grad[2]:
                each = [0.5 * (product * features).sum(-1) for product in products]
                of_weight = torch.stack(each, dim=-1).sum_to_size(weight.shape)
        of_weighted = None
        if ctx.needs_input_grad[1]:
            of_weighted = (of_moment.mT @ features.mT).mT.sum_to_size(weighted.shape)
        return slopes, of_weighted, of_weight, None


def _columns(weight: Tensor) -> tuple[Tensor, ...]:
    return weight[..., None].unbind(-2)


def _symmetric(left: Float[Tensor, "*B N F"], right: Float[Tensor, "*B N F"]) -> Tensor:
    """LᵀR that is known to be symmetric, in panels of rows from the diagonal to the right."""
    n_features = left.shape[-1]
    few = left.is_cuda and left.numel() // n_features < _FEWEST_ROWS_ON_GPU
    if few or n_features < _FEWEST_FEATURES:
        return left.mT @ right
    product = left.new_empty(*left.shape[:-2], n_features, n_features)
    width = math.ceil(n_features / _PANELS)
    for begin in range(0, n_features, width):
        end = min(begin + width, n_features)
        panel = left[..., begin:end].mT @ right[..., begin:]
        product[..., begin:end, begin:] = panel
        product[..., end:, begin:end] = panel[..., end - begin :].mT
    return product


def _outer(weighted: Float[Tensor, "*#B N T"], moment: Float[Tensor, "*B F T"]) -> Tensor:
    """(Wz)m̄ᵀ"""
    if weighted.shape[-1] == 1:
        return weighted * moment.mT
    return weighted @ moment.mT


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """T + LR in the memory of T."""
    flat = total.flatten(0, -3) if total.ndim > 2 else total[None]
    flat.baddbmm_(left.reshape(flat.shape), right.reshape(-1, *right.shape[-2:]))
    return total
