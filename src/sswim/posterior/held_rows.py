"""Rows that predictors hold, to predict from them or to compute statistics again."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import concatenate
from sswim.rows.copies import merge_copies
from sswim.rows.rows import Rows
from sswim.rows.summary import SAMPLE_ROWS


def count_rows(rows: Rows) -> Float64[Tensor, ""]:
    """Return the number of rows, each counted by its weight."""
    if rows.weight is None:
        return torch.tensor(float(len(rows)), dtype=torch.float64)
    return rows.weight.sum()


def append_rows(rows: Rows, more: Rows) -> Rows:
    """Join two sets of rows, and merge copies.

    Only one of the two may have weights or input variances.
    """
    parts = [rows, more]
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
    joined = concatenate(parts)
    return merge_copies(joined) if len(joined) <= SAMPLE_ROWS else joined
