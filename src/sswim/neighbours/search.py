"""The choice of a search for nearest points."""

from __future__ import annotations

from typing import Literal

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
    most = FEW_POINTS_DIMENSIONS if len(points) <= FEW_POINTS else TREE_DIMENSIONS
    return not points.is_cuda and points.shape[1] <= most
