"""The nearest points of queries: what every search can do, a k-d tree, and points of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from scipy.spatial import cKDTree
from torch import Tensor

from sswim.base.record import Record
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

    @property
    def n_points(self) -> int:
        """Number of points."""
        ...

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

    @property
    def n_points(self) -> int:
        """Number of points."""
        return self.tree.n

    def nearest(self, queries: Float[Tensor, "Q D"], k: int) -> Nearest:
        """Return the k points nearest to each query."""
        check_neighbours(k, self.n_points)
        distances, indices = self.tree.query(
            _finite(queries),
            k=np.arange(1, k + 1),  # numbers, because one neighbour would come without its axis
            workers=torch.get_num_threads(),
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
