"""The scan of boxes: candidates for the nearest points, proven to be complete."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray
from torch import Tensor

from sswim.neighbours.boxes import BOX, GROUP, Boxes
from sswim.neighbours.candidates import Candidates, rank, smallest
from sswim.neighbours.rounding import farthest, largest_product, product_dtype, query_factors

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
