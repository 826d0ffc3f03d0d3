"""Sufficient statistics of the regression: sums over rows, and all that it needs of them."""

from __future__ import annotations

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
    """Sums over rows; those of two sets of rows add up to those of their union."""

    gram: Float64[Tensor, "*B G F F"]
    """ΦᵀWΦ, one for all targets (G = 1) or one for each."""
    moment: Float64[Tensor, "*B F T"]
    """ΦᵀWz"""
    energy: Float64[Tensor, "*B T"]
    """zᵀWz"""
    log_scale: Float64[Tensor, "*B T"]
    """Σ c·(½τ log w + log T'(y)), what the log evidence of y has beyond that of z, noise σ²."""
    count: Float64[Tensor, "*B"]
    """Σc, the number of rows when each counts once."""

    def __add__(self, other: Statistics) -> Statistics:
        """The statistics of both sets of rows together."""
        pairs = zip(self.tensors(), other.tensors(), strict=True)
        return Statistics(*(mine + theirs for mine, theirs in pairs))

    def __sub__(self, other: Statistics) -> Statistics:
        """The statistics without some of the rows."""
        pairs = zip(self.tensors(), other.tensors(), strict=True)
        return Statistics(*(mine - theirs for mine, theirs in pairs))


def statistics(rows: Observations, gradients_only: bool = False) -> Statistics:
    """Sum rows up. Differentiable in features, targets and weights alike.

    Args:
        rows: Features, targets and weights.
        gradients_only: Leave ΦᵀWΦ zero, with its gradient; for rows that were summed up before.
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
    batch = features.shape[:-2]  # what members share is a sum for each of them
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
    """Sum the statistics of rows up, a chunk at a time and without a graph."""
    [total] = all_statistics([factors], rows, processes)
    return total


@torch.no_grad()
def all_statistics(
    members: Sequence[Factors], rows: Rows | Iterable[Rows], processes: Processes = ALONE
) -> list[Statistics]:
    """The same for several members in one pass over the rows."""
    totals: list[Statistics] = []
    for chunk in SmallerChunks([rows] if isinstance(rows, Rows) else rows, rows_at_once):
        parts = [statistics(observe(factors, chunk)) for factors in members]
        totals = [a + b for a, b in zip(totals, parts, strict=True)] if totals else parts
    _require_chunks(totals)
    return [processes.all_sum(total) for total in totals]


def sum_statistics(parts: Iterable[Statistics]) -> Statistics:
    """Add up the statistics of at least one chunk, one at a time."""
    parts = iter(parts)
    summed = [reduce(add, parts, first) for first in islice(parts, 1)]
    _require_chunks(summed)
    return summed[0]


def _require_chunks(summed: Sequence[Statistics]) -> None:
    if not summed:
        raise ValueError("There must be at least one chunk of rows. Got none.")
