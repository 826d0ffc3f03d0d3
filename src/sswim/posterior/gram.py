"""The products ΦᵀWΦ and ΦᵀWz over many rows, with gradients of their own.

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
"""Number of panels of a symmetric product. Blocks below the diagonal are copies, so 5/8 of the
operations are needed."""

_MIN_FEATURES = 128
"""Smallest number of features for which panels save time."""

_MIN_ROWS_ON_GPU = 100_000
"""Smallest number of rows, over all members, for which panels save time on a GPU."""


def weighted_sums(
    features: Float[Tensor, "*B N F"],
    weighted: Float[Tensor, "*#B N T"],
    weight: Float[Tensor, "*#B N G"] | None = None,
    gradients_only: bool = False,
) -> tuple[Float64[Tensor, "*B G F F"], Float64[Tensor, "*B F T"]]:
    """Return ΦᵀWΦ, which takes N·F² operations, and ΦᵀWz.

    Args:
        features: Φ.
        weighted: Wz, the weighted targets.
        weight: Weights of the rows, the diagonal of W; None if all are one.
        gradients_only: Return zeros in place of ΦᵀWΦ, to save time where only the gradient matters;
            the gradient is the same.
    """
    gram, moment = _WeightedSums.apply(features, weighted, weight, gradients_only)
    return gram, moment


class _WeightedSums(torch.autograd.Function):
    """ΦᵀWΦ and ΦᵀWz, with one product of size N·F² in the backward pass; autograd takes two.

    With G = ΦᵀWΦ, m = ΦᵀWz and a bar for the gradient of the objective:

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
        moment = (weighted.mT @ features).mT  # much faster than features.mT @ weighted
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
            of_features = _add_product(_outer(weighted, of_moment), features, matrix)
        else:
            products = [features @ matrix for matrix in symmetric]  # Φ(Ḡ + Ḡᵀ)
            of_features = _outer(weighted, of_moment)
            for product, column in zip(products, _columns(weight), strict=True):
                of_features = of_features.addcmul_(product, column)
            if ctx.needs_input_grad[2]:
                columns = [0.5 * (product * features).sum(-1) for product in products]
                of_weight = torch.stack(columns, dim=-1).sum_to_size(weight.shape)
        of_weighted = None
        if ctx.needs_input_grad[1]:
            of_weighted = (of_moment.mT @ features.mT).mT.sum_to_size(weighted.shape)
        return of_features, of_weighted, of_weight, None


def _columns(weight: Tensor) -> tuple[Tensor, ...]:
    """Return the columns of the weights, each with an axis of features."""
    return weight[..., None].unbind(-2)


def _symmetric(left: Float[Tensor, "*B N F"], right: Float[Tensor, "*B N F"]) -> Tensor:
    """Return LᵀR, which must be symmetric, in panels that reach from the diagonal to the right."""
    n_features = left.shape[-1]
    few_rows = left.is_cuda and left.numel() // n_features < _MIN_ROWS_ON_GPU
    if few_rows or n_features < _MIN_FEATURES:
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
    """Return (Wz)m̄ᵀ."""
    if weighted.shape[-1] == 1:
        return weighted * moment.mT
    return weighted @ moment.mT


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Return T + LR, written into the memory of T."""
    flat = total.flatten(0, -3) if total.ndim > 2 else total[None]
    flat.baddbmm_(left.reshape(flat.shape), right.reshape(-1, *right.shape[-2:]))
    return total
