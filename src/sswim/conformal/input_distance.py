"""The distance of inputs from the rows that a model has seen."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.neighbours.search import make_search
from sswim.rows.rows import Rows

NEAREST = 5
"""Number of nearest rows over which the distance is averaged, by benchmarks/change_evidence.py."""

_LARGEST = 1e100
"""Largest standardised input; the square of a larger one may overflow."""


def input_distance(inputs: Float[Tensor, "N D"], seen: Rows | None) -> Float64[Tensor, " N"]:
    """Return the distance of each row from the rows seen, per root of the number of inputs.

    It is the mean distance from the nearest rows. For a model that keeps no rows it is the distance
    from their centre: the root mean square of the standardised inputs.

    Args:
        inputs: Standardised inputs.
        seen: Standardised rows that the model has seen; None if it does not keep them.
    """
    inputs = _bounded(inputs)
    if seen is None:
        return inputs.square().mean(1).sqrt()
    search = make_search(_bounded(seen.inputs.mean))
    squared = search.nearest(inputs, min(NEAREST, search.n_points)).squared
    return squared.sqrt().mean(1) / math.sqrt(inputs.shape[1])


def _bounded(inputs: Float[Tensor, "N D"]) -> Float64[Tensor, "N D"]:
    return inputs.to(torch.float64).clamp(-_LARGEST, _LARGEST)
