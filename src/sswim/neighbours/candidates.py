"""Candidates: pairs of queries and points, of which the nearest are found in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy import ndarray
from torch import Tensor


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
