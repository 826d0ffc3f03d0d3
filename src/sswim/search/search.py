"""The choice of a search for nearest points.

A search by products of queries with blocks of points.
"""

from __future__ import annotations

import math
from functools import cached_property, partial
from typing import Literal

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from sswim.base.record import map_in_threads
from sswim.search.nearest import Nearest, Search, TreeSearch, check_neighbours, partition_order
from sswim.search.scans import (
    BOX,
    LARGEST,
    Boxes,
    BoxScan,
    ProductScan,
    make_boxes,
    nearest_by_differences,
    product_dtype,
)

MEMORY = {"cpu": 2**28, "cuda": 2**31}
"""Bytes for blocks, by device."""

MAX_RUN, MIN_RUN = 2**14, 2**10
"""Number of queries that a thread takes at once: more make larger products, fewer fit into less
memory."""

PAIR_BYTES = 32
"""Bytes that a candidate of a query takes while candidates are sorted."""

MAX_TREE_DIMENSIONS = 20
"""Largest dimension in which a tree compares the points that products cannot tell apart."""


class BlockSearch:
    """An exact search by products, for many dimensions and for GPUs.

    On a CPU, points are in boxes, and only boxes that can contain nearest points are looked at.
    On a GPU, all points are. Products in float32 find candidates, which are compared in float64;
    bounds on the rounding errors prove that no nearest point is left out. Where they cannot, the
    coordinates are compared one by one.

    Args:
        points: Points to search in; the search takes place on their device.
        memory: Bytes for blocks; by default 2²⁸ on a CPU and 2³¹ on a GPU. Copies of the points
            come on top: one for each thread of a CPU, two on a GPU.
        boxes: Whether to put points into boxes, which needs a CPU; by default on CPUs only.
    """

    def __init__(
        self, points: Float[Tensor, "N D"], memory: int | None = None, boxes: bool | None = None
    ) -> None:
        self.points = points.detach().to(torch.float64).contiguous()
        self.memory = memory or MEMORY.get(points.device.type, 2**28)
        use_boxes = not points.is_cuda if boxes is None else boxes
        self.centre = self.points.mean(0)
        # Without points, or with points so far apart that float32 overflows, there is one way.
        fits = len(points) > 0 and bool(((self.points - self.centre).abs() < LARGEST).all())
        self.boxes = make_boxes(self.points) if use_boxes and fits else None
        self.scans: list[ProductScan] = []
        if not use_boxes and fits:
            dtypes = dict.fromkeys((product_dtype(), torch.float64))
            self.scans = [ProductScan(self.points, dtype, self.memory) for dtype in dtypes]

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.points)

    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the k points nearest to each query, on the device of the points."""
        check_neighbours(k, self.n_points)
        queries = queries.detach().to(self.points)
        indices = torch.zeros(len(queries), k, dtype=torch.int64, device=queries.device)
        squared = torch.zeros(len(queries), k, dtype=torch.float64, device=queries.device)
        small = ((queries - self.centre).abs() < LARGEST).all(-1)
        rest = torch.arange(len(queries), device=queries.device)
        if self.boxes is not None and len(queries) > 0:
            rows = small.nonzero()[:, 0]
            proven = self._scan_boxes(self.boxes, queries, rows, indices, squared)
            rest = rest[~proven]
        for scan in self.scans:
            rows = rest[small[rest]]
            if len(rows) > 0:
                indices[rows], squared[rows], proven = scan.nearest(queries[rows], k)
                done = torch.zeros_like(small)
                done[rows[proven]] = True
                rest = rest[~done[rest]]
        if len(rest) > 0:
            indices[rest], squared[rest] = self._compare(queries[rest], k)
        return Nearest(indices, squared)

    def _compare(
        self, queries: Float64[Tensor, "Q D"], k: int
    ) -> tuple[Int64[Tensor, "Q k"], Float64[Tensor, "Q k"]]:
        """Return nearest points and squared distances, by differences of coordinates."""
        if self.points.is_cuda or self.points.shape[1] > MAX_TREE_DIMENSIONS:
            return nearest_by_differences(self.points, queries, k, self.memory)
        nearest = self.tree.nearest(queries, k)
        return nearest.indices, nearest.squared

    @cached_property
    def tree(self) -> TreeSearch:
        """The tree for queries whose candidates are too many.

        Such queries are close to many points in comparison with the distances between all points,
        which is where a tree is fast.
        """
        return TreeSearch(self.points)

    def _scan_boxes(
        self,
        boxes: Boxes,
        queries: Float64[Tensor, "Q D"],
        rows: Int64[Tensor, " q"],
        indices: Int64[Tensor, "Q k"],
        squared: Float64[Tensor, "Q k"],
    ) -> Bool[Tensor, " Q"]:
        """Fill in the nearest points of rows, and return for which queries it was done."""
        proven = torch.zeros(len(queries), dtype=torch.bool)
        threads = torch.get_num_threads()
        memory = self.memory // threads
        n_inputs, k = queries.shape[1], indices.shape[1]
        query_bytes = 2 * PAIR_BYTES * k + 4 * (2 * n_inputs + BOX) + len(boxes)
        most = max(MIN_RUN, memory // (2 * query_bytes))
        size = min(MAX_RUN, most, max(1, -(-len(rows) // threads)))
        order = torch.from_numpy(partition_order(queries[rows].numpy(), size))
        runs = list(rows[order].split(size))
        find = partial(_nearest_in_boxes, boxes, queries, k, memory // PAIR_BYTES)
        for run, result in zip(runs, map_in_threads(find, runs), strict=True):
            indices[run], squared[run], proven[run] = result
        return proven


def _nearest_in_boxes(
    boxes: Boxes, queries: Float64[Tensor, "Q D"], k: int, max_pairs: int, run: Int64[Tensor, " q"]
) -> tuple[Int64[Tensor, "q k"], Float64[Tensor, "q k"], Bool[Tensor, " q"]]:
    return BoxScan(boxes, queries[run], k, max_pairs).nearest()


TREE_DIMENSIONS = 8
"""Largest dimension in which a k-d tree is faster than products, by benchmarks/neighbour_search.py.

Uniform points set it; in clusters or with correlated columns a tree stays ahead for longer.
"""

FEW_POINTS, FEW_POINTS_DIMENSIONS = 2_000, 12
"""Number of points up to which a k-d tree is faster in this many dimensions."""

MANY_POINTS, INTRINSIC_DIMENSIONS = 2**15, 6.0
"""Number of points from which a k-d tree is faster if the points lie near a set of few dimensions,
as the rows of most tables do."""

Method = Literal["auto", "tree", "blocks"]


def make_search(points: Float[Tensor, "N D"], method: Method = "auto") -> Search:
    """Return a search for the nearest of points. All methods are exact.

    Args:
        points: Points to search in.
        method: "tree" is a k-d tree, "blocks" are products, and "auto" is the faster of the two
            for points of this dimension and device.
    """
    if method == "auto":
        method = "tree" if is_tree_faster(points) else "blocks"
    return TreeSearch(points) if method == "tree" else BlockSearch(points)


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
