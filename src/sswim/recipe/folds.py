"""Folds: the rows that members leave out while their hyper-parameters are learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int64
from torch import Tensor

from sswim.base.record import stack_records
from sswim.recipe.recipe import FEW_ROWS
from sswim.rows.row_keys import row_keys
from sswim.rows.rows import Rows

PARTS, PARTS_OF_FEW = 8, 4
"""A member leaves out at most one row in this many; of few rows more, because weights need them."""

MAX_TRAINING_ROWS = 50_000
"""Largest number of rows to learn hyper-parameters from; more cost time and change little."""

MAX_FOLD_ROWS = 5000
"""Largest number of distinct rows of a fold: enough for weights and noise levels."""

MIN_ROWS = 24
"""Smallest number of distinct rows for which there are folds."""


def draw_folds(
    rows: Rows, n_folds: int, generator: torch.Generator
) -> list[Int64[Tensor, " _"]] | None:
    """Draw disjoint folds, each a quarter of few rows or less of more; None for too few rows.

    Rows with equal inputs stay together, so that no row is predicted from its own copy, and a row
    of weight two is the same as the row twice.
    """
    distinct, group = rows.inputs.mean.unique(dim=0, return_inverse=True)
    if len(distinct) < MIN_ROWS:
        return None
    parts = PARTS_OF_FEW if len(distinct) < FEW_ROWS else PARTS
    size = min(len(distinct) // max(parts, n_folds), MAX_FOLD_ROWS)
    order = torch.randperm(len(distinct), generator=generator).to(group.device)
    chosen = order[: n_folds * size].split(size)
    return [torch.isin(group, fold).nonzero()[:, 0] for fold in chosen]


def outside(rows: Rows, fold: Rows) -> Rows:
    """Return the rows whose inputs are not those of any row of a fold."""
    keys = row_keys(rows.inputs.mean.to(torch.float64))
    return rows.take(
        (~torch.isin(keys, row_keys(fold.inputs.mean.to(torch.float64)))).nonzero()[:, 0]
    )


def leave_out(rows: Rows, folds: Sequence[Int64[Tensor, " _"]], generator: torch.Generator) -> Rows:
    """Return the rows outside each fold, or a random choice of many, along an axis of members.

    Where copies of rows make folds of different sizes, shorter ones are filled with rows of weight
    zero.
    """
    everything = torch.arange(len(rows), device=rows.targets.device)
    kept = [_at_most(everything[~torch.isin(everything, fold)], generator) for fold in folds]
    most = max(len(indices) for indices in kept)
    if all(len(indices) == most for indices in kept):
        return stack_records(rows.take(indices) for indices in kept)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    parts = []
    for indices in kept:
        filling = indices[:1].expand(most - len(indices))
        part = replace(rows, weight=weight).take(torch.cat((indices, filling)))
        assert part.weight is not None
        part.weight[len(indices) :] = 0
        parts.append(part)
    return stack_records(parts)


def _at_most(indices: Int64[Tensor, " n"], generator: torch.Generator) -> Int64[Tensor, " m"]:
    if len(indices) <= MAX_TRAINING_ROWS:
        return indices
    chosen = torch.randperm(len(indices), generator=generator)[:MAX_TRAINING_ROWS]
    return indices[chosen.to(indices.device)]
