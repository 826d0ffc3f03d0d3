"""A search with a k-d tree."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Float64
from scipy.spatial import cKDTree
from torch import Tensor

from sswim.neighbours.nearest import Nearest, check_neighbours

_FARTHEST = 1e150
"""Largest coordinate, whose square is still finite: a tree finds nothing at infinite distances."""


class TreeSearch:
    """An exact search with a k-d tree, for few dimensions.

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
