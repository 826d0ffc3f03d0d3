"""The unit of weights: the weight of a row that counts as one observation.

Only ratios of weights say something about a table: all weights doubled, or every row given twice,
is the same table. So weights are divided by a unit. It is the largest number of which all weights
are multiples, if there is one: a row given three times then counts as three observations. Weights
that are no multiples, or that are large though every row has its own inputs, are shares of
importance rather than counts, and their unit is their mean.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64

from sswim.rows.rows import Rows

_ROUNDING = 1e-9
"""Relative distance of a multiple from the next integer."""

_MANY = 10.0
"""Mean count above which rows with inputs of their own are not counts of observations."""


def weight_unit(rows: Rows) -> float:
    """Return the unit of the weights of rows; one if they have none."""
    if rows.weight is None:
        return 1.0
    weights = rows.weight[rows.weight > 0].cpu().numpy()
    mean = float(weights.mean())
    divisor = _common_divisor(weights)
    if divisor is None or (mean > _MANY * divisor and not _inputs_repeat(rows)):
        return mean
    return divisor


def _common_divisor(weights: Float64[np.ndarray, " N"]) -> float | None:
    """Return the largest number of which all weights are multiples, if one is found."""
    for unit in (float(weights.min()), 1.0):
        ratios = weights / unit
        counts = np.rint(ratios)
        if counts.max() < 2**53 and np.all(np.abs(ratios - counts) <= _ROUNDING * ratios):
            return unit * int(np.gcd.reduce(counts.astype(np.int64)))
    return None


def _inputs_repeat(rows: Rows) -> bool:
    """Return whether most rows share their inputs with a row that has another target."""
    _, counts = torch.unique(rows.inputs.mean, dim=0, return_counts=True)
    return bool(counts[counts > 1].sum() > len(rows) / 2)
