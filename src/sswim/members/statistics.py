"""Sufficient statistics of the regression: the sums over rows that it depends on.

The notation is that of :mod:`sswim.members.linear_regression`. The products ΦᵀWΦ and ΦᵀWz over many
rows, in which training spends most of its time, have gradients of their own. All tensors may have
axes *B of members in front.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import add
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.base.record import Record, rows_at_once
from sswim.distributed.processes import ALONE, Processes
from sswim.members.model import Factors
from sswim.members.observations import Observations, observe
from sswim.rows.rows import Rows, SmallerChunks

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


@dataclass(frozen=True)
class Statistics(Record):
    """Sums over a set of rows; the statistics of several sets add up."""

    gram: Float64[Tensor, "*B G F F"]
    """ΦᵀWΦ, the Gram matrix; one for all targets (G = 1), or one for each."""
    moment: Float64[Tensor, "*B F T"]
    """ΦᵀWz, the products of features and targets."""
    energy: Float64[Tensor, "*B T"]
    """zᵀWz, the sum of squared targets."""
    log_scale: Float64[Tensor, "*B T"]
    """Σ c·(½τ log w + log T'(y)): the log evidence of y is that of z with noise σ², plus this."""
    count: Float64[Tensor, "*B"]
    """Σ c, the number of rows if each counts once."""

    def packed_gram(self) -> Float64[Tensor, "*B G P"]:
        """Return the lower triangle of ΦᵀWΦ, row after row; only this triangle is ever read."""
        n_features = self.gram.shape[-1]
        rows, columns = torch.tril_indices(n_features, n_features, device=self.gram.device)
        return self.gram[..., rows, columns]

    def packed_bytes(self) -> int:
        """Return the number of bytes of the packed Gram matrix."""
        *batch, n_features, _ = self.gram.shape
        return math.prod(batch) * n_features * (n_features + 1) // 2 * self.gram.itemsize

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both sets of rows together."""
        pairs = zip(self.tensors(), other.tensors(), strict=True)
        return Statistics(*(mine + theirs for mine, theirs in pairs))

    def __sub__(self, other: Statistics) -> Statistics:
        """Return the statistics without those of a subset of the rows."""
        pairs = zip(self.tensors(), other.tensors(), strict=True)
        return Statistics(*(mine - theirs for mine, theirs in pairs))


def unpack_gram(packed: Float64[Tensor, "*B G P"], n_features: int) -> Float64[Tensor, "*B G F F"]:
    """Return ΦᵀWΦ, given its lower triangle; see :meth:`Statistics.packed_gram`."""
    rows, columns = torch.tril_indices(n_features, n_features, device=packed.device)
    gram = packed.new_empty(*packed.shape[:-1], n_features, n_features)
    gram[..., rows, columns] = packed
    gram[..., columns, rows] = packed
    return gram


def statistics(rows: Observations, gradients_only: bool = False) -> Statistics:
    """Compute the statistics of rows; differentiable in features, targets and weights.

    Args:
        rows: Features, targets and weights.
        gradients_only: Return zeros in place of ΦᵀWΦ, with the right gradient; for rows whose
            statistics are already known.
    """
    features, targets = rows.features, rows.targets
    weight, log_weight, multiplicity = rows.weight(), rows.log_weight(), rows.multiplicity
    weighted = targets if weight is None else targets * weight  # Wz
    gram, moment = weighted_sums(
        features,
        weighted.to(features.dtype),
        None if weight is None else weight.to(features.dtype),
        gradients_only,
    )
    log_scale = rows.log_slope
    if log_weight is not None:
        log_scale = log_scale + 0.5 * log_weight
    if multiplicity is not None:
        log_scale = log_scale * multiplicity[..., None]
    batch = features.shape[:-2]  # sums over rows that members share are repeated for each member
    return Statistics(
        gram=gram,
        moment=moment,
        energy=(targets * weighted).sum(-2).expand(*batch, -1),
        log_scale=log_scale.sum(-2).expand(*batch, -1),
        count=targets.new_full(batch, targets.shape[-2])
        if multiplicity is None
        else multiplicity.sum(-1).expand(batch),
    )


@torch.no_grad()
def total_statistics(
    factors: Factors, rows: Rows | Iterable[Rows], processes: Processes = ALONE
) -> Statistics:
    """Compute the statistics of any number of rows, chunk by chunk and without a graph.

    Features are computed in float64, whatever the precision of the rows.

    Args:
        factors: Tensors of the member.
        rows: Rows in memory, or chunks of rows in an iterable that can be started again.
        processes: Processes whose rows are added up.
    """
    [total] = member_statistics([factors], rows, processes)
    return total


@torch.no_grad()
def member_statistics(
    members: Sequence[Factors], rows: Rows | Iterable[Rows], processes: Processes = ALONE
) -> list[Statistics]:
    """Compute the statistics of several members in one pass over the rows.

    The arguments are those of :func:`total_statistics`, with the factors of several members.
    """
    totals: list[Statistics] = []
    for chunk in SmallerChunks([rows] if isinstance(rows, Rows) else rows, rows_at_once):
        # In float32 the features of a row, and sums of them, would depend on how rows are cut into
        # chunks: the posterior amplifies that by the number of rows over λ.
        exact = chunk.to(dtype=torch.float64)
        parts = [statistics(observe(factors, exact)) for factors in members]
        totals = [a + b for a, b in zip(totals, parts, strict=True)] if totals else parts
    _require_chunks(totals)
    return [processes.all_sum(total) for total in totals]


def sum_statistics(parts: Iterable[Statistics]) -> Statistics:
    """Add up the statistics of chunks one after another; there must be at least one chunk."""
    parts = iter(parts)
    totals = [reduce(add, parts, first) for first in islice(parts, 1)]
    _require_chunks(totals)
    return totals[0]


def _require_chunks(totals: Sequence[Statistics]) -> None:
    """Raise unless there was a chunk of rows."""
    if not totals:
        raise ValueError("There must be at least one chunk of rows. Got none.")
