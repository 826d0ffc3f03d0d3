"""The choice of a search for nearest points."""

from __future__ import annotations

import math
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.neighbours.block_search import BlockSearch
from sswim.neighbours.faiss_search import FaissSearch
from sswim.neighbours.nearest import Search
from sswim.neighbours.tree_search import TreeSearch

TREE_DIMENSIONS = 8
"""Largest dimension in which a k-d tree is faster than products, by benchmarks/neighbour_search.py.

Uniform points set it; in clusters or with correlated columns a tree stays ahead for longer.
"""

FEW_POINTS, FEW_POINTS_DIMENSIONS = 2_000, 12
"""Number of points up to which a k-d tree is faster in this many dimensions."""

MANY_POINTS, INTRINSIC_DIMENSIONS = 2**15, 6.0
"""Number of points from which a k-d tree is faster if the points lie near a set of few dimensions,
as the rows of most tables do."""

Method = Literal["auto", "tree", "blocks", "faiss"]


def make_search(points: Float[Tensor, "N D"], method: Method = "auto") -> Search:
    """Return a search for the nearest of points. All methods are exact.

    Args:
        points: Points to search in.
        method: "tree" is a k-d tree, "blocks" are products, "faiss" is the flat index of FAISS,
            and "auto" is the faster of the first two for points of this dimension and device.
    """
    if method == "auto":
        method = "tree" if is_tree_faster(points) else "blocks"
    if method == "tree":
        return TreeSearch(points)
    if method == "blocks":
        return BlockSearch(points)
    return FaissSearch(points)


def is_tree_faster(points: Float[Tensor, "N D"]) -> bool:
    """Return whether a k-d tree is faster than products."""
    if points.is_cuda:
        return False
    if points.shape[1] <= (FEW_POINTS_DIMENSIONS if len(points) <= FEW_POINTS else TREE_DIMENSIONS):
        return True
    return len(points) >= MANY_POINTS and intrinsic_dimension(points) <= INTRINSIC_DIMENSIONS


def intrinsic_dimension(points: Float[Tensor, "N D"]) -> float:
    """Estimate the dimension of the set near which points lie.

    In d dimensions the 16th neighbour is 2^{1/d} times as far away as the eighth; the estimate is
    from 2,000 of the points.
    """
    chosen = torch.linspace(0, len(points) - 1, min(2_000, len(points))).long()
    sample = points[chosen].to(torch.float64)
    distances = torch.cdist(sample, sample).topk(17, largest=False).values
    eighth, sixteenth = distances[:, 8], distances[:, 16]
    ratios = (sixteenth / eighth)[eighth > 0]
    growth = ratios.log().mean().item() if len(ratios) else math.inf
    return math.log(2) / growth if growth > 0 else math.inf
