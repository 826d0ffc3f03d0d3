"""The neighbours of a point: the nearest rows, and on a map far ones as well.

A map or a series may have gaps. In a gap the nearest of all rows lie together at one edge of it;
those of a thinned set lie on all sides. So, with few inputs, half of the neighbours of a point are
the nearest of all rows, and half the nearest of one row in 64. With more inputs all are the
nearest of all rows.
"""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from sswim.distributed.processes import ALONE, Processes
from sswim.neighbours.nearest import Search
from sswim.neighbours.search import make_search
from sswim.neighbours.shared_search import SharedSearch
from sswim.rows.row_keys import row_keys

MAP_INPUTS = 3
"""Largest number of inputs of what may be a map or a series with gaps."""

THINNING = 64
"""One row in this many is a candidate for the far neighbours."""


class NeighbourIndex:
    """Finds the neighbours of points among rows, of which each process may have a part."""

    def __init__(
        self,
        points: Float64[Tensor, "N D"],
        is_far: Bool[Tensor, " N"],
        offset: int = 0,
        processes: Processes = ALONE,
    ) -> None:
        """Index rows.

        Args:
            points: The rows of this process, in the warped space.
            is_far: Whether each row can be a far neighbour; see :func:`thinned`.
            offset: Number of its first row among all rows.
            processes: The processes that have the other rows. They must all look up the same
                points together.
        """
        self.points, self.offset, self.processes = points, offset, processes
        self._own_far = is_far.nonzero()[:, 0]
        self.n_rows = sum(processes.all_gather(len(points)))

    def neighbours(self, points: Float64[Tensor, "Q D"], k: int) -> Int64[Tensor, "Q m"]:
        """Return the k neighbours of points, the nearest first; near and far rows in turn.

        The place of a far row that is a near row as well has the number −1. There are fewer than k
        places if there are fewer rows.
        """
        if k >= self.n_rows:
            return self.search.nearest(points, self.n_rows).indices
        n_far = min(k // 2, len(self.far)) if points.shape[1] <= MAP_INPUTS else 0
        near = self.search.nearest(points, k - n_far).indices
        if n_far == 0:
            return near
        far = self.far[self.far_search.nearest(points, n_far).indices]
        again = (far[:, :, None] == near[:, None, :]).any(-1)
        far = torch.where(again, -1, far)
        pairs = torch.stack((near[:, :n_far], far), dim=-1).flatten(1)
        return torch.cat((pairs, near[:, n_far:]), dim=-1)

    @cached_property
    def search(self) -> Search:
        """The search among all rows."""
        return self._shared(self.points, self.offset)

    @cached_property
    def far(self) -> Int64[Tensor, " n"]:
        """The rows that can be far neighbours, by their numbers among all rows."""
        parts = self.processes.all_gather((self._own_far + self.offset).cpu())
        return torch.cat(parts).to(self.points.device)

    @cached_property
    def far_search(self) -> Search:
        """The search among the rows that can be far neighbours."""
        counts = self.processes.all_gather(len(self._own_far))
        return self._shared(self.points[self._own_far], sum(counts[: self.processes.rank]))

    def _shared(self, points: Float64[Tensor, "N D"], offset: int) -> Search:
        own = make_search(points)
        return own if self.processes.size == 1 else SharedSearch(own, offset, self.processes)


def thinned(inputs: Float[Tensor, "N D"], divisor: int = THINNING) -> Bool[Tensor, " N"]:
    """Choose about one row in ``divisor`` by a hash of its inputs in single precision.

    The choice does not depend on the order of the rows, on their precision or on the device.
    """
    return row_keys(inputs.to(torch.float32)).remainder(divisor) == 0
