"""Copies: rows whose inputs and targets are all equal."""

from __future__ import annotations

from dataclasses import replace

import torch

from sswim.rows.row_keys import row_keys
from sswim.rows.rows import Rows


def merge_copies(rows: Rows) -> Rows:
    """Return distinct rows in an order that depends on them alone, with the sums of their weights.

    Rows without copies whose weights are equal, or that have none, are returned as they are: equal
    weights mean as much as none.
    """
    columns = replace(rows, weight=None).to(dtype=torch.float64).tensors()
    keys = row_keys(torch.cat(columns, dim=1))
    distinct, index = keys.unique(return_inverse=True)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    if len(distinct) == len(rows) and bool((weight == weight[:1]).all()):
        return rows
    total = weight.new_zeros(len(distinct)).index_add_(0, index, weight)
    first = index.new_full((len(distinct),), len(rows)).scatter_reduce_(
        0, index, torch.arange(len(rows), device=index.device), "amin"
    )
    return replace(rows.take(first), weight=total)
