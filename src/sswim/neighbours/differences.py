"""Nearest points by differences of coordinates, which need no bounds on rounding errors."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.neighbours.candidates import rank


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
