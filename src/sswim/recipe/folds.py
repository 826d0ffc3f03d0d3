"""Rows left out while a member's hyper-parameters are learnt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int64
from torch import Tensor

from sswim.base.record import stack
from sswim.rows.rows import Rows

PARTS = 8
"""A member leaves out one row in so many."""

MOST_SEEN = 50_000
"""Rows that hyper-parameters are learnt from; more cost time and change little."""

MOST = 5000
"""Distinct rows of a fold: enough for what is learnt from it."""

FEWEST = 24
"""Distinct rows; of fewer none can be spared."""


def draw_folds(
    rows: Rows, n_folds: int, generator: torch.Generator
) -> list[Int64[Tensor, " _"]] | None:
    """Disjoint sets of rows, each an eighth of them or fewer; None where there are too few.

    Equal inputs stay together, so that no row is predicted from its own copy, and a row of weight
    two is the row twice.
    """
    distinct, group = rows.inputs.mean.unique(dim=0, return_inverse=True)
    if len(distinct) < FEWEST:
        return None
    size = min(len(distinct) // max(PARTS, n_folds), MOST)
    order = torch.randperm(len(distinct), generator=generator).to(group.device)
    chosen = order[: n_folds * size].split(size)
    return [torch.isin(group, fold).nonzero()[:, 0] for fold in chosen]


def leave_out(rows: Rows, folds: Sequence[Int64[Tensor, " _"]], generator: torch.Generator) -> Rows:
    """For each fold the rows outside it, or some of them if they are many, along a member axis.

    Where copies of rows make folds of different sizes, the shorter are filled with rows that do not
    count.
    """
    everything = torch.arange(len(rows), device=rows.targets.device)
    kept = [_some(everything[~torch.isin(everything, fold)], generator) for fold in folds]
    most = max(len(indices) for indices in kept)
    if all(len(indices) == most for indices in kept):
        return stack(rows.take(indices) for indices in kept)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    parts = []
    for indices in kept:
        filling = indices[:1].expand(most - len(indices))
        part = replace(rows, weight=weight).take(torch.cat((indices, filling)))
        assert part.weight is not None
        part.weight[len(indices) :] = 0
        parts.append(part)
    return stack(parts)


def _some(indices: Int64[Tensor, " n"], generator: torch.Generator) -> Int64[Tensor, " m"]:
    if len(indices) <= MOST_SEEN:
        return indices
    chosen = torch.randperm(len(indices), generator=generator)[:MOST_SEEN]
    return indices[chosen.to(indices.device)]
