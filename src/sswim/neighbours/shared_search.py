"""A search in points that several processes share."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.distributed.processes import Processes
from sswim.neighbours.nearest import Nearest, Search, check_neighbours


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
        self._n_points = sum(processes.all_gather(own.n_points))

    @property
    def n_points(self) -> int:
        """Number of points of all processes."""
        return self._n_points

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
