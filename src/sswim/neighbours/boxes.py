"""Boxes of points that lie close together."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import Record
from sswim.neighbours.partition import partition_order
from sswim.neighbours.rounding import point_factors

GROUP = 16
"""Number of points whose smallest distance stands for all of them at first."""

BOX = 8 * GROUP
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
