"""Squared distances as products, and bounds on their rounding errors.

With x and y from a common centre, |x − y|² = (−2x, |x|², 1)·(y, 1, |y|²). The product differs from
the true value by at most κ(|x| + |y|)². With the unit roundoff u this is the sum of the errors
(D + 2)u(|x| + |y|)² of the product, u|x| and u|y| of the factors' entries, and Du|x|² and Du|y|² of
their squares; κ is twice as large, which allows for terms in u² and for sums in any order.

Let t be the true distance of a point. Its |x| is at most |y| + t, so its product s satisfies
|s − t²| ≤ κ(2|y| + t)² ≤ 2κ(4|y|² + t²).

Candidates: pairs of queries and points, of which the nearest are found in float64.

Nearest points by differences of coordinates, which need no bounds on rounding errors.

The scan of all points by products and ``topk``, which suits GPUs.

Boxes of points that lie close together.

The scan of boxes: candidates for the nearest points, proven to be complete.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray
from torch import Tensor

from sswim.base.record import Record
from sswim.search.nearest import partition_order

TINY = 2.0**-100
"""Error of products whose terms are too small for float32."""

LARGEST = 2.0**50
"""Largest coordinate whose products are certain not to overflow in float32."""


def product_dtype() -> torch.dtype:
    """Return float32, or float64 if PyTorch may multiply float32 with fewer bits than these."""
    return torch.float32 if torch.get_float32_matmul_precision() == "highest" else torch.float64


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


def query_factors(
    queries: Float64[Tensor, "Q D"], centre: Float64[Tensor, " D"], dtype: torch.dtype
) -> Float[Tensor, "Q F"]:
    """Return (y, 1, |y|²) of queries."""
    factors = torch.ones(len(queries), queries.shape[1] + 2, dtype=dtype, device=queries.device)
    centred = queries - centre
    factors[:, :-2] = centred
    factors[:, -1] = centred.square_().sum(-1)
    return factors


def farthest(
    products: Float[Tensor, " Q"], squares: Float64[Tensor, " Q"], n_inputs: int
) -> Float64[Tensor, " Q"]:
    """Return the largest squared distances that products can stand for.

    Args:
        products: Squared distances as products.
        squares: |y|² of the queries.
        n_inputs: D.
    """
    kappa = _kappa(n_inputs, products.dtype)
    return (products.to(torch.float64).clamp(min=0) + 8 * kappa * squares + TINY) / (1 - 2 * kappa)


def largest_product(
    squared: Float64[Tensor, " Q"],
    squares: Float64[Tensor, " Q"],
    n_inputs: int,
    dtype: torch.dtype,
) -> Float64[Tensor, " Q"]:
    """Return the largest products of points within given squared distances.

    Args:
        squared: Squared distances.
        squares: |y|² of the queries.
        n_inputs: D.
        dtype: Precision of the products.
    """
    kappa = _kappa(n_inputs, dtype)
    return squared + kappa * (2 * squares.sqrt() + squared.sqrt()).square() + TINY


def _kappa(n_inputs: int, dtype: torch.dtype) -> float:
    return (2 * n_inputs + 8) * torch.finfo(dtype).eps


@dataclass(frozen=True)
class Candidates:
    """Pairs of a query and a point that may be among its nearest, in the order of the queries."""

    begin: Int64[ndarray, " ends"]
    """Pairs of query i are those from begin[i] to begin[i + 1]."""
    places: Int64[ndarray, " pairs"]
    """Places of the points."""
    products: Float[ndarray, " pairs"]
    """Squared distances as products."""

    @property
    def counts(self) -> Int64[ndarray, " Q"]:
        """Number of candidates of every query."""
        return np.diff(self.begin)

    def table(
        self, rows: Int64[ndarray, " q"]
    ) -> tuple[Int64[ndarray, "q most"], Float[ndarray, "q most"]]:
        """Return places and products of some queries; infinite products fill up short rows."""
        counts = self.counts[rows, None]
        columns = np.arange(counts.max())
        at = self.begin[rows, None] + np.minimum(columns, counts - 1)
        products = np.where(columns < counts, self.products.take(at), np.inf)
        return self.places.take(at), products.astype(self.products.dtype, copy=False)


def smallest(
    places: Int64[ndarray, "q most"],
    products: Float[ndarray, "q most"],
    limit: Float[ndarray, " q"],
) -> tuple[Int64[ndarray, "q some"], Float[ndarray, "q some"]]:
    """Return the columns that contain all products up to a limit, and infinity for the others."""
    products = np.where(products <= limit[:, None], products, np.inf)
    n = int(np.isfinite(products).sum(1).max())
    if n == products.shape[1]:
        return places, products
    chosen = np.argpartition(products, n - 1, axis=1)[:, :n]
    return np.take_along_axis(places, chosen, 1), np.take_along_axis(products, chosen, 1)


def rank(
    points: Float64[Tensor, "N D"],
    queries: Float64[Tensor, "Q D"],
    places: Int64[Tensor, "Q n"],
    k: int,
    absent: Tensor | None = None,
) -> tuple[Int64[Tensor, "Q k"], Float64[Tensor, "Q k"]]:
    """Return the k nearest of candidates, by differences in float64.

    Args:
        points: All points.
        queries: Queries.
        places: Points that are candidates for each query.
        k: Number of neighbours.
        absent: Which of the candidates do not count.
    """
    chosen = points.index_select(0, places.reshape(-1)).view(*places.shape, points.shape[1])
    squared = (chosen - queries[:, None]).square_().sum(-1)
    if absent is not None:
        squared.masked_fill_(absent, torch.inf)
    if squared.is_cuda:
        order = squared.argsort(dim=1)[:, :k]
    else:  # NumPy sorts short rows several times as fast
        order = torch.from_numpy(np.argsort(squared.numpy(), axis=1)[:, :k])
    return places.gather(1, order), squared.gather(1, order)


def nearest_by_differences(
    points: Float64[Tensor, "N D"], queries: Float64[Tensor, "Q D"], k: int, memory: int
) -> tuple[Int64[Tensor, "Q k"], Float64[Tensor, "Q k"]]:
    """Return the nearest points and their squared distances.

    Args:
        points: Points to search in.
        queries: Queries.
        k: Number of neighbours.
        memory: Bytes for the distances of a block of queries.
    """
    size = max(1, memory // (24 * len(points) + 16 * k * points.shape[1]))
    parts = [_nearest(points, block, k) for block in queries.split(size)]
    indices, squared = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return indices, squared


def _nearest(
    points: Float64[Tensor, "N D"], queries: Float64[Tensor, "q D"], k: int
) -> tuple[Int64[Tensor, "q k"], Float64[Tensor, "q k"]]:
    distances = torch.cdist(queries, points, compute_mode="donot_use_mm_for_euclid_dist")
    if distances.is_cuda:
        chosen = distances.topk(k, largest=False).indices
    else:  # NumPy partitions several times as fast
        chosen = torch.from_numpy(np.argpartition(distances.numpy(), k - 1, axis=1)[:, :k])
    return rank(points, queries, chosen, k)


GROUP = 16
"""Number of points whose smallest product stands for all of them at first: a sixteenth of the
products is left for ``topk``, which takes most of the time."""

MARGIN = 16
"""Number of candidates beyond k, whose products prove that the others are farther away."""


class ProductScan:
    """A scan of all points by products.

    Args:
        points: The points.
        dtype: Precision of the products.
        memory: Bytes for the products of a block of queries.
    """

    def __init__(self, points: Float64[Tensor, "N D"], dtype: torch.dtype, memory: int) -> None:
        self.points, self.memory = points, memory
        self.centre = points.mean(0)
        n_groups = -(-len(points) // GROUP)
        factors = point_factors(points, self.centre, dtype)
        padding = torch.zeros_like(factors[:1]).expand(n_groups * GROUP - len(points), -1).clone()
        padding[:, -2] = torch.inf
        self.factors = torch.cat((factors, padding))
        self.n_groups = n_groups

    def nearest(
        self, queries: Float64[Tensor, "Q D"], k: int
    ) -> tuple[Int64[Tensor, "Q k"], Float64[Tensor, "Q k"], Bool[Tensor, " Q"]]:
        """Return the nearest points, squared distances, and for which queries they are proven."""
        n = k + MARGIN
        width = 8 * queries.shape[1] * n + 32 * GROUP * n
        product_bytes = self.factors.itemsize * len(self.factors) * (1 + 1 / GROUP)
        size = max(1, int(self.memory / (product_bytes + width)))
        parts = [self._nearest(block, k) for block in queries.split(size)]
        indices, squared, proven = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        return indices, squared, proven

    def _nearest(
        self, queries: Float64[Tensor, "q D"], k: int
    ) -> tuple[Int64[Tensor, "q k"], Float64[Tensor, "q k"], Bool[Tensor, " q"]]:
        dtype = self.factors.dtype
        products = query_factors(queries, self.centre, dtype) @ self.factors.mT
        places, values = self._candidates(products, k + MARGIN)
        beyond = places >= len(self.points)
        indices, squared = rank(self.points, queries, places.masked_fill(beyond, 0), k, beyond)
        if places.shape[1] >= len(self.points):
            return indices, squared, torch.ones_like(squared[:, 0], dtype=torch.bool)
        squares = (queries - self.centre).square().sum(-1)
        kth = squared[:, -1]
        limit = largest_product(kth, squares, queries.shape[1], dtype)
        return indices, squared, (limit < values.amax(1)) | (kth == 0)

    def _candidates(
        self, products: Float[Tensor, "q M"], n: int
    ) -> tuple[Int64[Tensor, "q n"], Float[Tensor, "q n"]]:
        """Return the places and values of the n smallest products, or of all if these are fewer."""
        grouped = products.view(len(products), GROUP, self.n_groups)
        groups = grouped.amin(1).topk(min(n, self.n_groups), largest=False, sorted=False).indices
        members = torch.arange(GROUP, device=products.device)[:, None] * self.n_groups
        places = (groups[:, None] + members).flatten(1)
        values, chosen = products.gather(1, places).topk(
            min(n, places.shape[1]), largest=False, sorted=False
        )
        return places.gather(1, chosen), values


BOX_GROUP = 16
"""Number of points whose smallest distance stands for all of them at first."""

BOX = 8 * BOX_GROUP
"""Number of points in a box. Larger boxes are skipped less often; smaller ones make the products
small, which are then slow."""


@dataclass(frozen=True)
class Boxes(Record):
    """Points in boxes, and the sides of the smallest boxes that contain them."""

    order: Int64[Tensor, " M"]
    """Numbers of the points, box by box. The last point fills up the last box."""
    points: Float64[Tensor, "M D"]
    lower: Float64[Tensor, "B D"]
    upper: Float64[Tensor, "B D"]
    n_points: int

    def __len__(self) -> int:
        return len(self.lower)

    def factors(self, centre: Float64[Tensor, " D"], dtype: torch.dtype) -> Float[Tensor, "B P F"]:
        """Return the factors of all points, where those that fill up are infinitely far away."""
        factors = point_factors(self.points, centre, dtype)
        factors[self.n_points :, -2] = torch.inf
        return factors.view(len(self), BOX, -1)


def make_boxes(points: Float64[Tensor, "N D"]) -> Boxes:
    """Put points into boxes, the leaves of a k-d tree."""
    order = torch.from_numpy(partition_order(points.numpy(), BOX))
    n_boxes = -(-len(points) // BOX)
    order = torch.cat((order, order[-1:].expand(n_boxes * BOX - len(points))))
    ordered = points[order]
    boxes = ordered.view(n_boxes, BOX, -1)
    return Boxes(order, ordered, boxes.amin(1), boxes.amax(1), len(points))


FIRST_BOXES = 24
"""Number of boxes nearby that give the first bound; more for many neighbours."""

BOXES_AT_ONCE = 8
"""Number of boxes whose sides are compared with queries at once, so that they stay in the cache."""

QUERIES_AT_ONCE = 512
"""Number of queries whose distances from all boxes stay in the cache."""

RANKED_QUERIES = 256
"""Number of queries whose candidates stay in the cache."""


class BoxScan:
    """A scan of the boxes that can contain nearest points of some queries.

    Args:
        boxes: The points.
        queries: At most 65,536 queries, better a few thousand that lie close together.
        k: Number of neighbours.
        max_pairs: Number of pairs of candidates and queries above which queries are given up.
    """

    def __init__(
        self, boxes: Boxes, queries: Float64[Tensor, "Q D"], k: int, max_pairs: int
    ) -> None:
        self.boxes, self.k, self.max_pairs = boxes, k, max_pairs
        self.all_queries, self.centre = queries, queries.mean(0)
        dtype = product_dtype()
        self.points = boxes.factors(self.centre, dtype)
        self.queries = query_factors(queries, self.centre, dtype)
        self.squares = (queries - self.centre).square().sum(-1)
        # Memory that all boxes use in turn, because new memory costs more than the products.
        self.selected = torch.empty_like(self.queries)
        self.products = torch.empty(BOX * len(queries), dtype=dtype)

    def nearest(
        self,
    ) -> tuple[Int64[Tensor, "Q k"], Float64[Tensor, "Q k"], Bool[Tensor, " Q"]]:
        """Return the nearest points, squared distances, and for which queries they are proven."""
        candidates = self.candidates()
        n_queries = len(self.queries)
        indices = torch.zeros(n_queries, self.k, dtype=torch.int64)
        squared = torch.zeros(n_queries, self.k, dtype=torch.float64)
        proven = candidates.counts >= self.k
        # Queries with similar numbers of candidates make tables with little padding.
        rows = np.argsort(candidates.counts, kind="stable")[n_queries - proven.sum() :]
        for begin in range(0, len(rows), RANKED_QUERIES):
            own = rows[begin : begin + RANKED_QUERIES]
            at = torch.from_numpy(own)
            indices[at], squared[at] = self._rank(*candidates.table(own), at)
        return indices, squared, torch.from_numpy(proven)

    def _rank(
        self,
        places: Int64[ndarray, "q n"],
        products: Float[ndarray, "q n"],
        rows: Int64[Tensor, " q"],
    ) -> tuple[Int64[Tensor, "q k"], Float64[Tensor, "q k"]]:
        """Return the nearest of the candidates of some queries."""
        kth = torch.from_numpy(np.partition(products, self.k - 1, axis=1)[:, self.k - 1].copy())
        limit = self._product_limit(farthest(kth, self.squares[rows], self.n_inputs), rows)
        places, products = smallest(places, products, limit.numpy())
        nearest, squared = rank(
            self.boxes.points,
            self.all_queries[rows],
            torch.from_numpy(places),
            self.k,
            torch.from_numpy(np.isinf(products)),
        )
        return self.boxes.order[nearest], squared

    def candidates(self) -> Candidates:
        """Return all pairs that may be among the nearest."""
        squared = farthest(self._first_products(), self.squares, self.n_inputs)
        limit = self._product_limit(squared, slice(None)).numpy()
        visits = self._visits(squared)
        found: list[tuple[ndarray, ...]] = []
        counts = np.zeros(len(limit), dtype=np.int64)
        for box in range(len(self.boxes)):
            rows = np.flatnonzero(visits[box])
            if len(rows) > 0:
                found.append(self._pairs(box, rows, limit))
                counts += np.bincount(found[-1][0], minlength=len(limit))
            if counts.sum() > self.max_pairs:
                # Queries with few candidates go on, the others need another way.
                limit[counts > max(2 * self.k, counts.mean())] = -np.inf
                found = [_of_queries(pairs, limit > -np.inf) for pairs in found]
                counts[limit == -np.inf] = 0
        return self._sorted(found, len(limit))

    @property
    def n_inputs(self) -> int:
        """Number of dimensions."""
        return len(self.centre)

    def _product_limit(
        self, squared: Float64[Tensor, " q"], rows: Int64[Tensor, " q"] | slice
    ) -> Float[Tensor, " q"]:
        """Return the largest products of points within squared distances, rounded upwards."""
        dtype = self.products.dtype
        limit = largest_product(squared, self.squares[rows], self.n_inputs, dtype)
        return (limit * (1 + 2 * torch.finfo(dtype).eps)).to(dtype)

    def _product(self, box: int, rows: Int64[ndarray, " q"]) -> Float[Tensor, "G P q"]:
        """Return the products of a box's points with queries, by group."""
        n = len(rows)
        selected, products = self.selected[:n], self.products[: BOX * n].view(BOX, n)
        torch.index_select(self.queries, 0, torch.from_numpy(rows), out=selected)
        torch.mm(self.points[box], selected.mT, out=products)
        return products.view(-1, GROUP, n)

    def _first_products(self) -> Float[Tensor, " Q"]:
        """Return the k-th smallest of the groups' smallest products, in boxes nearby."""
        n_boxes = min(len(self.boxes), max(FIRST_BOXES, self.k))
        near = self._near_boxes(n_boxes)
        n_queries = len(near)
        groups = BOX // GROUP
        smallest = np.empty((n_queries, n_boxes, groups), dtype=self.products.numpy().dtype)
        order = np.argsort(near, axis=None, kind="stable")
        ends = np.cumsum(np.bincount(near.ravel(), minlength=len(self.boxes)))
        for box, pairs in enumerate(np.split(order, ends[:-1])):
            if len(pairs) > 0:
                rows, places = np.divmod(pairs, n_boxes)
                smallest[rows, places] = self._product(box, rows).amin(1).mT.numpy()
        flat = smallest.reshape(n_queries, -1)
        if flat.shape[1] < self.k:
            return torch.full((n_queries,), torch.inf, dtype=self.products.dtype)
        flat.partition(self.k - 1, axis=1)
        return torch.from_numpy(flat[:, self.k - 1].copy())

    def _near_boxes(self, n: int) -> ndarray:
        """Return n boxes for each query whose middles are near."""
        middles = (
            self.boxes.lower + (self.boxes.upper - self.boxes.lower) / 2 - self.centre
        ).float()
        squares = middles.square().sum(-1)
        numbers = np.uint16 if len(self.boxes) < 2**16 else np.int64
        near = np.empty((len(self.queries), n), dtype=numbers)
        begin = 0
        for queries in self.queries[:, :-2].float().split(QUERIES_AT_ONCE):
            scores = torch.addmm(squares, queries, middles.mT, alpha=-2).numpy()
            near[begin : begin + len(scores)] = np.argpartition(scores, n - 1, axis=1)[:, :n]
            begin += len(scores)
        return near

    def _visits(self, squared: Float64[Tensor, " Q"]) -> Bool[ndarray, "B Q"]:
        """Return which boxes reach into the squared distances around queries."""
        lower = (self.boxes.lower - self.centre).float().numpy()
        upper = (self.boxes.upper - self.centre).float().numpy()
        queries = self.queries[:, :-2].mT.float().contiguous().numpy()
        # A gap is at most t, so the side of a box is at most |y| + t from the centre, and the gap
        # is off by at most 3u(2|y| + t) in each dimension.
        reach, length = squared.sqrt(), self.squares.sqrt()
        slack = 2.0**-21 * self.n_inputs**0.5 * (2 * length + reach)
        limit = ((reach + slack).square() * (1 + 2.0**-20 * self.n_inputs)).float().numpy()
        visits = np.empty((len(lower), len(limit)), dtype=bool)
        gaps = np.empty((BOXES_AT_ONCE, len(limit)), dtype=np.float32)
        for begin in range(0, len(lower), BOXES_AT_ONCE):
            part = slice(begin, begin + BOXES_AT_ONCE)
            gap = gaps[: len(lower[part])]
            total = np.zeros_like(gap)
            for column, low, high in zip(queries, lower[part].T, upper[part].T, strict=True):
                np.clip(column, low[:, None], high[:, None], out=gap)
                np.subtract(column, gap, out=gap)
                np.multiply(gap, gap, out=gap)
                total += gap
            np.less_equal(total, limit, out=visits[part])
        return visits

    def _pairs(
        self, box: int, rows: Int64[ndarray, " q"], limit: Float[ndarray, " Q"]
    ) -> tuple[ndarray, ...]:
        """Return queries, places and products of a box's candidates."""
        products = self._product(box, rows)
        limit = limit[rows]
        group, query = np.divmod(np.flatnonzero(products.amin(1).numpy() <= limit), len(rows))
        values = products.numpy()[group, :, query]
        within = np.flatnonzero(values <= limit[query, None])
        pair, member = np.divmod(within, GROUP)
        places = group[pair] * GROUP + (member + box * BOX)
        return rows[query[pair]].astype(np.uint16), places, values.ravel()[within]

    def _sorted(self, found: list[tuple[ndarray, ...]], n_queries: int) -> Candidates:
        """Return the pairs in the order of the queries."""
        queries, places, products = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(queries, kind="stable")
        begin = np.searchsorted(queries[order], np.arange(n_queries + 1))
        return Candidates(begin, places[order], products[order])


def _of_queries(pairs: tuple[ndarray, ...], chosen: Bool[ndarray, " Q"]) -> tuple[ndarray, ...]:
    """Return the pairs of chosen queries."""
    kept = chosen[pairs[0]]
    return tuple(column[kept] for column in pairs)
