"""A search with the flat index of FAISS."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.base.errors import UserError
from sswim.neighbours.candidates import rank
from sswim.neighbours.differences import nearest_by_differences
from sswim.neighbours.nearest import Nearest, check_neighbours
from sswim.neighbours.rounding import largest_product

MARGIN = 16
"""Number of candidates beyond k, whose distances prove that the others are farther away."""


class FaissSearch:
    """An exact search with FAISS's ``IndexFlatL2``, which compares queries with all points.

    FAISS computes in float32. Its candidates are compared in float64, and where its rounding errors
    could have hidden a nearest point, the coordinates of all points are compared. So the search is
    exact.

    Args:
        points: Points to search in, on a CPU.
        memory: Bytes for blocks of comparisons in float64.
    """

    def __init__(self, points: Float[Tensor, "N D"], memory: int = 2**28) -> None:
        try:
            import faiss  # noqa: PLC0415 (an extra)
        except ImportError as error:
            raise UserError(
                "The search method 'faiss' needs the package faiss-cpu, which is not installed. "
                "Install it with pip install 'sswim[faiss]', or choose another method."
            ) from error
        self.points = points.detach().to(torch.float64).contiguous()
        self.memory = memory
        self.centre = self.points.mean(0)
        self.index = faiss.IndexFlatL2(points.shape[1])
        self.index.add((self.points - self.centre).to(torch.float32).numpy())

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.points)

    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the k points nearest to each query."""
        check_neighbours(k, self.n_points)
        queries = queries.detach().to(self.points)
        n = min(k + MARGIN, self.n_points)
        centred = queries - self.centre
        products, places = self.index.search(centred.to(torch.float32).numpy(), n)
        # FAISS marks a place without a finite distance by −1.
        candidates = torch.from_numpy(places).clamp(min=0)
        indices, squared = rank(self.points, queries, candidates, k)
        kth, farthest = squared[:, -1], torch.from_numpy(products).amax(1)
        squares = centred.square().sum(-1)
        limit = largest_product(kth, squares, queries.shape[1], torch.float32)
        proven = (limit < farthest) | (n == self.n_points)
        rest = (~proven | torch.from_numpy((places < 0).any(1))).nonzero()[:, 0]
        if len(rest) > 0:
            indices[rest], squared[rest] = nearest_by_differences(
                self.points, queries[rest], k, self.memory
            )
        return Nearest(indices, squared)
