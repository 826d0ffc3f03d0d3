"""Sufficient statistics of the regression: the sums over rows that it depends on.

The notation is that of :mod:`sswim.posterior.linear_regression`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from operator import add

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record, rows_at_once
from sswim.distributed.processes import ALONE, Processes
from sswim.model.observations import Observations, observe
from sswim.model.sswim import Factors
from sswim.posterior.gram import weighted_sums
from sswim.rows.rows import Rows
from sswim.rows.smaller_chunks import SmallerChunks


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
