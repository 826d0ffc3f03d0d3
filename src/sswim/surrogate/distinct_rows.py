"""Rows that are not near copies of others, which is what members learn from.

A search for the best value ends up with many rows side by side. Each of them would count as much as
a row that is far from all others: members would explain the one place where the rows are, and be
too sure of all others. So they learn from one row of each group, and are conditioned on all rows.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

NEAR = 0.003
"""Distance in units of √D and the range of an input, below which a row is a near copy."""


def distinct_rows(inputs: Float64[Tensor, "N D"]) -> Int64[Tensor, " M"]:
    """Return the indices of rows, in order, that are no near copies of an earlier one of them."""
    n_rows, n_inputs = inputs.shape
    near = (torch.cdist(inputs, inputs) < NEAR * math.sqrt(n_inputs)).cpu()
    copy = torch.zeros(n_rows, dtype=torch.bool)
    for row in range(n_rows):
        if not copy[row]:
            copy[row + 1 :] |= near[row, row + 1 :]
    return (~copy).nonzero()[:, 0].to(inputs.device)
