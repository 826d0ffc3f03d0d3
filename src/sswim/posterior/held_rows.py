"""Rows that predictors hold, to predict from them or to compute statistics again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import concatenate
from sswim.rows.copies import merge_copies
from sswim.rows.rows import Rows


def count_rows(rows: Rows) -> Float64[Tensor, ""]:
    """Return the number of rows, each counted by its weight."""
    if rows.weight is None:
        return torch.tensor(float(len(rows)), dtype=torch.float64)
    return rows.weight.sum()


def append_rows(rows: Rows, more: Rows) -> Rows:
    """Join two sets of rows, and merge copies.

    Copies are merged whatever the number of rows, so that many small sets appended one after
    another are the same rows as all of them appended at once.
    """
    return merge_copies(join_rows([rows, more]))


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Join sets of rows, of which only some may have weights or input variances."""
    if any(part.weight is not None for part in parts):
        parts = [
            replace(p, weight=p.targets.new_ones(len(p)) if p.weight is None else p.weight)
            for p in parts
        ]
    if any(part.inputs.input_variance is not None for part in parts):
        parts = [
            p
            if p.inputs.input_variance is not None
            else replace(
                p, inputs=replace(p.inputs, input_variance=torch.zeros_like(p.inputs.mean))
            )
            for p in parts
        ]
    return concatenate(parts)
