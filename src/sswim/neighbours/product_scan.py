"""The scan of all points by products and ``topk``, which suits GPUs."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from sswim.neighbours.candidates import rank
from sswim.neighbours.rounding import largest_product, point_factors, query_factors

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
