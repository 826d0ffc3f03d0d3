"""Exact searches for the nearest points of queries: by a k-d tree, or by products with all points.

Where the points lie near a set of few dimensions, as the rows of most tables do, a k-d tree is
fastest; elsewhere, and on GPUs, products are (``lab/benchmarks/neighbour_search.py``).

With x and y from a common centre, |x − y|² = |x|² − 2x·y + |y|²: one product of matrices gives all
squared distances, but rounded. The nearest by products are candidates, whose distances are computed
again as differences in float64, and bounds on the rounding errors prove that no nearest point is
left out. Where they cannot, the differences to all points are computed.

**Bounds.** A product differs from the true value by at most κ(|x| + |y|)². With the unit roundoff u
this is the sum of the errors (D + 2)u(|x| + |y|)² of the product, u|x| and u|y| of the factors'
entries, and Du|x|² and Du|y|² of their squares; κ is twice as large, which allows for terms in u²
and for sums in any order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from sswim.base.record import Record, concatenate
from sswim.base.threads import n_cores
from sswim.distributed.processes import Processes

_FARTHEST = 1e150
"""Largest coordinate, whose square is still finite: a tree finds nothing at infinite distances."""


@dataclass(frozen=True)
class Nearest(Record):
    """The nearest points of every query, the nearest first."""

    indices: Int64[Tensor, "Q k"]
    squared: Float64[Tensor, "Q k"]
    """Squared distances."""


@runtime_checkable
class Search(Protocol):
    """A search for the nearest of fixed points."""

    n_points: int
    """Number of points."""

    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the k points nearest to each query; points at equal distances in any order."""
        ...


def check_neighbours(k: int, n_points: int) -> None:
    """Raise unless there are k points.

    Args:
        k: Number of neighbours that were asked for.
        n_points: Number of points.
    """
    if not 1 <= k <= n_points:
        raise ValueError(
            f"The number of neighbours must be between 1 and the number of points. Got k={k} and "
            f"{n_points} points. Ask for fewer neighbours, or search in more points."
        )


class TreeSearch:
    """An exact search with SciPy's k-d tree, for few dimensions.

    Args:
        points: Points to search in, on a CPU.
    """

    def __init__(self, points: Float[Tensor, "N D"]) -> None:
        # Splits in the middle of cells make a tree that is built four times as fast.
        self.tree = cKDTree(_finite(points), balanced_tree=False)
        self.n_points = len(points)

    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the k points nearest to each query."""
        check_neighbours(k, self.n_points)
        distances, indices = self.tree.query(
            _finite(queries),
            k=np.arange(1, k + 1),  # numbers, because one neighbour would come without its axis
            workers=n_cores(),
        )
        return Nearest(torch.from_numpy(indices), torch.from_numpy(distances).square())


def _finite(points: Float[Tensor, "N D"]) -> Float64[np.ndarray, "N D"]:
    """Return points whose distances are numbers, even if parameters that diverged made them."""
    tame = points.to(torch.float64).nan_to_num(nan=_FARTHEST).clamp(-_FARTHEST, _FARTHEST)
    return tame.numpy()


class SharedSearch:
    """A search in the points of all processes.

    Every process must make its search, and ask for the same neighbours of the same queries, at the
    same time as the others.

    Args:
        own: Search in the points of this process, which may have none.
        offset: Number of this process's first point among all points.
        processes: All processes.
    """

    def __init__(self, own: Search, offset: int, processes: Processes) -> None:
        self.own, self.offset, self.processes = own, offset, processes
        self.n_points = sum(processes.all_gather(own.n_points))

    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the k points nearest to each query, the same in every process."""
        check_neighbours(k, self.n_points)
        with self.processes.shared_errors():
            own = self._own_nearest(queries, k)
        # Tensors travel by way of the CPU: a GPU of another process has another number.
        gathered = self.processes.all_gather(own.to(device=torch.device("cpu")))
        indices = torch.cat([part.indices for part in gathered], dim=1)
        squared = torch.cat([part.squared for part in gathered], dim=1)
        # A stable sort gives points at equal distances the same order in every process.
        order = squared.argsort(dim=1, stable=True)[:, :k]
        nearest = Nearest(indices.gather(1, order), squared.gather(1, order))
        return nearest.to(device=own.indices.device)

    def _own_nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the nearest of this process's points, which may be fewer than k."""
        if self.own.n_points == 0:
            indices = torch.empty(len(queries), 0, dtype=torch.int64, device=queries.device)
            return Nearest(indices, indices.to(torch.float64))
        own = self.own.nearest(queries, min(k, self.own.n_points))
        return Nearest(own.indices + self.offset, own.squared)


TREE_DIMENSIONS = 8
"""Largest dimension in which a k-d tree is faster than products.

Uniform points set it; in clusters or with correlated columns a tree stays ahead for longer.
"""

FEW_POINTS, FEW_POINTS_DIMENSIONS = 2_000, 12
"""Number of points up to which a k-d tree is faster in this many dimensions."""

MANY_POINTS, INTRINSIC_DIMENSIONS = 2**15, 6.0
"""Number of points from which a k-d tree is faster if the points lie near a set of few dimensions,
as the rows of most tables do."""

MEMORY = {"cpu": 2**28, "cuda": 2**31}
"""Bytes for blocks, by device."""

MARGIN = 16
"""Number of candidates beyond k, whose products prove that the others are farther away."""

GROUP = 16
"""Number of points whose smallest product stands for all of them at first: a sixteenth of the
products is left for ``topk``, which takes most of the time."""

MAX_TREE_DIMENSIONS = 20
"""Largest dimension in which a tree compares the points that products cannot tell apart."""

TINY = 2.0**-100
"""Error of products whose terms are too small for float32."""

LARGEST = 2.0**50
"""Largest coordinate whose products are certain not to overflow in float32."""

Candidates = tuple[Int64[Tensor, "q n"], Float[Tensor, "q n"]]
"""Points that are candidates for each query, and their products."""


def make_search(points: Float[Tensor, "N D"]) -> Search:
    """Return the faster search for the nearest of points of this dimension and on this device."""
    return TreeSearch(points) if is_tree_faster(points) else ProductSearch(points)


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


class ProductSearch:
    """An exact search by products with all points.

    Candidates come from scikit-learn in float64 on a CPU. On a GPU they come from products and
    ``topk``, first in float32.

    Args:
        points: Points to search in; the search takes place on their device.
        memory: Bytes for blocks; by default 2²⁸ on a CPU and 2³¹ on a GPU. Copies of the points
            come on top: one on a CPU, two on a GPU.
        by_topk: Whether candidates come from ``topk``; by default on GPUs only.
    """

    def __init__(
        self, points: Float[Tensor, "N D"], memory: int | None = None, by_topk: bool | None = None
    ) -> None:
        self.points, self.n_points = points.detach().to(torch.float64).contiguous(), len(points)
        self.memory = memory or MEMORY.get(points.device.type, 2**28)
        self.centre = self.points.mean(0)
        self.scans: list[_TopkScan | _CPUScan] = []
        # Without points, or with points so far apart that float32 overflows, there is one way.
        if len(points) == 0 or not bool(((self.points - self.centre).abs() < LARGEST).all()):
            return
        if points.is_cuda if by_topk is None else by_topk:
            # PyTorch may multiply float32 with fewer bits than these.
            is_exact = torch.get_float32_matmul_precision() == "highest"
            dtypes = (torch.float32, torch.float64) if is_exact else (torch.float64,)
            self.scans = [_TopkScan(self.points, self.centre, dtype) for dtype in dtypes]
        else:
            self.scans = [_CPUScan(self.points, self.centre)]

    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the k points nearest to each query, on the device of the points."""
        check_neighbours(k, self.n_points)
        queries = queries.detach().to(self.points)
        indices = torch.zeros(len(queries), k, dtype=torch.int64, device=queries.device)
        squared = torch.zeros(len(queries), k, dtype=torch.float64, device=queries.device)
        small = ((queries - self.centre).abs() < LARGEST).all(-1)
        done = torch.zeros_like(small)
        for scan in self.scans:
            size = max(1, self.memory // scan.query_bytes(k + MARGIN))
            for rows in (small & ~done).nonzero()[:, 0].split(size):
                if len(rows) > 0:
                    found, done[rows] = self._scan(scan, queries[rows], k)
                    indices[rows], squared[rows] = found.indices, found.squared
        rest = (~done).nonzero()[:, 0]
        if len(rest) > 0:
            found = self._compare(queries[rest], k)
            indices[rest], squared[rest] = found.indices, found.squared
        return Nearest(indices, squared)

    def _scan(
        self, scan: _TopkScan | _CPUScan, queries: Float64[Tensor, "q D"], k: int
    ) -> tuple[Nearest, Bool[Tensor, " q"]]:
        """Return the nearest points, and for which queries they are proven."""
        centred = queries - self.centre
        places, products = scan.candidates(centred, min(k + MARGIN, self.n_points))
        nearest = rank(self.points, queries, places, k)
        kth = nearest.squared[:, -1]
        if places.shape[1] >= self.n_points:
            return nearest, torch.ones_like(kth, dtype=torch.bool)
        limit = largest_product(kth, centred.square().sum(-1), queries.shape[1], products.dtype)
        return nearest, (limit < products.amax(1)) | (kth == 0)

    def _compare(self, queries: Float64[Tensor, "Q D"], k: int) -> Nearest:
        """Return the nearest points by differences of coordinates."""
        if not self.points.is_cuda and self.points.shape[1] <= MAX_TREE_DIMENSIONS:
            return self.tree.nearest(queries, k)
        size = max(1, self.memory // (24 * self.n_points + 16 * k * self.points.shape[1]))
        parts = queries.split(size)
        return concatenate(_nearest_by_differences(self.points, rows, k) for rows in parts)

    @cached_property
    def tree(self) -> TreeSearch:
        """The tree for queries whose candidates are too many.

        Such queries are close to many points in comparison with the distances between all points,
        which is where a tree is fast.
        """
        return TreeSearch(self.points)


class _CPUScan:
    """Candidates by scikit-learn's fused products and heaps."""

    def __init__(self, points: Float64[Tensor, "N D"], centre: Float64[Tensor, " D"]) -> None:
        self.neighbours = NearestNeighbors(algorithm="brute").fit((points - centre).numpy())

    def query_bytes(self, n: int) -> int:
        """Return the bytes that a query takes."""
        return 8 * n * (self.neighbours.n_features_in_ + 4)

    def candidates(self, centred: Float64[Tensor, "q D"], n: int) -> Candidates:
        """Return the nearest points by products."""
        distances, places = self.neighbours.kneighbors(centred.numpy(), n)
        return torch.from_numpy(places), torch.from_numpy(distances).square()


class _TopkScan:
    """Candidates by products (y, 1, |y|²)·(−2x, |x|², 1) with all points and ``topk``."""

    def __init__(
        self, points: Float64[Tensor, "N D"], centre: Float64[Tensor, " D"], dtype: torch.dtype
    ) -> None:
        factors = point_factors(points, centre, dtype)
        self.n_groups = -(-len(points) // GROUP)
        padding = factors.new_zeros(self.n_groups * GROUP - len(points), factors.shape[1])
        padding[:, -2] = torch.inf
        self.factors = torch.cat((factors, padding))

    def query_bytes(self, n: int) -> int:
        """Return the bytes that a query takes."""
        product_bytes = self.factors.itemsize * len(self.factors) * (1 + 1 / GROUP)
        return int(product_bytes + 8 * (self.factors.shape[1] - 2) * n + 32 * GROUP * n)

    def candidates(self, centred: Float64[Tensor, "q D"], n: int) -> Candidates:
        """Return the nearest points by products."""
        products = query_factors(centred, self.factors.dtype) @ self.factors.mT
        grouped = products.view(len(products), GROUP, self.n_groups)
        groups = grouped.amin(1).topk(min(n, self.n_groups), largest=False, sorted=False).indices
        members = torch.arange(GROUP, device=products.device)[:, None] * self.n_groups
        places = (groups[:, None] + members).flatten(1)
        values, chosen = products.gather(1, places).topk(n, largest=False, sorted=False)
        return places.gather(1, chosen), values


def point_factors(
    points: Float64[Tensor, "N D"], centre: Float64[Tensor, " D"], dtype: torch.dtype
) -> Float[Tensor, "N F"]:
    """Return (−2x, |x|², 1) of points."""
    factors = torch.ones(len(points), points.shape[1] + 2, dtype=dtype, device=points.device)
    centred = points - centre
    factors[:, :-2] = centred
    factors[:, :-2] *= -2
    factors[:, -2] = centred.square_().sum(-1)
    return factors


def query_factors(centred: Float64[Tensor, "Q D"], dtype: torch.dtype) -> Float[Tensor, "Q F"]:
    """Return (y, 1, |y|²) of queries, given from the centre."""
    factors = torch.ones(len(centred), centred.shape[1] + 2, dtype=dtype, device=centred.device)
    factors[:, :-2] = centred
    factors[:, -1] = centred.square().sum(-1)
    return factors


def largest_product(
    squared: Float64[Tensor, " Q"],
    squares: Float64[Tensor, " Q"],
    n_inputs: int,
    dtype: torch.dtype,
) -> Float64[Tensor, " Q"]:
    """Return the largest products of points within given squared distances.

    The |x| of a point at the distance t is at most |y| + t, so its product is at most
    t² + κ(2|y| + t)².

    Args:
        squared: t², squared distances.
        squares: |y|² of the queries.
        n_inputs: D.
        dtype: Precision of the products.
    """
    kappa = (2 * n_inputs + 8) * torch.finfo(dtype).eps
    return squared + kappa * (2 * squares.sqrt() + squared.sqrt()).square() + TINY


def rank(
    points: Float64[Tensor, "N D"],
    queries: Float64[Tensor, "Q D"],
    places: Int64[Tensor, "Q n"],
    k: int,
) -> Nearest:
    """Return the k nearest of candidates, by differences in float64.

    Args:
        points: All points.
        queries: Queries.
        places: Points that are candidates for each query.
        k: Number of neighbours.
    """
    chosen = points.index_select(0, places.reshape(-1)).view(*places.shape, points.shape[1])
    squared = (chosen - queries[:, None]).square_().sum(-1)
    if squared.is_cuda:
        order = squared.argsort(dim=1)[:, :k]
    else:  # NumPy sorts short rows several times as fast
        order = torch.from_numpy(np.argsort(squared.numpy(), axis=1)[:, :k])
    return Nearest(places.gather(1, order), squared.gather(1, order))


def _nearest_by_differences(
    points: Float64[Tensor, "N D"], queries: Float64[Tensor, "q D"], k: int
) -> Nearest:
    """Return the nearest points without any product."""
    distances = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist")
    if distances.is_cuda:
        chosen = distances.topk(k, largest=False).indices
    else:  # NumPy partitions several times as fast
        chosen = torch.from_numpy(np.argpartition(distances.numpy(), k - 1, axis=1)[:, :k])
    return rank(points, queries, chosen, k)
