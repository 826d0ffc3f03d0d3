"""Rows as predictions by neighbours use them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from sswim.base.record import Record, map_chunks, rows_at_once
from sswim.model.observations import kernel_points, log_precision
from sswim.model.sswim import Factors
from sswim.posterior.neighbour_index import NeighbourIndex, thinned
from sswim.rows.rows import Rows

MIN_RIDGE = 1e-8
"""Smallest λ: rows that are almost equal would otherwise make K singular."""


@dataclass(frozen=True)
class NeighbourRows(Record):
    """Rows as predictions by neighbours use them."""

    points: Float64[Tensor, "N D"]
    """Warped inputs, in units of the length-scales."""
    variance: Float64[Tensor, "N D"] | None
    """Variances of uncertain inputs, passed on by the warps; None where inputs are exact."""
    targets: Float64[Tensor, "N T"]
    """z = T(y), the warped targets."""
    log_slope: Float64[Tensor, "N T"]
    """log T'(y)"""
    ridge: Float64[Tensor, "N T"]
    """λ, the noise variance over s²."""
    is_far: Bool[Tensor, " N"]
    """Whether each row can be a far neighbour."""

    def __len__(self) -> int:
        return len(self.points)

    def neighbours(self, points: Float64[Tensor, "Q D"], k: int) -> Int64[Tensor, "Q m"]:
        """Return the k neighbours of points, −1 for a missing one; see :class:`NeighbourIndex`."""
        return self.index.neighbours(points, k)

    @cached_property
    def index(self) -> NeighbourIndex:
        """The index in which neighbours are found."""
        return NeighbourIndex(self.points, self.is_far)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies and pickles, without the index."""
        return {name: value for name, value in self.__dict__.items() if name != "index"}


def neighbour_rows(
    factors: Factors, rows: Rows, noise_to_signal: Float64[Tensor, " T"]
) -> NeighbourRows:
    """Compute points, targets and ridges of rows, chunk by chunk.

    Args:
        factors: Tensors of the model.
        rows: Standardised rows.
        noise_to_signal: λ = σ²/s² of a row that counts once, under constant noise.
    """
    return map_chunks(
        lambda chunk: observe_neighbours(factors, chunk, noise_to_signal), rows, rows_at_once(rows)
    )


def observe_neighbours(
    factors: Factors, rows: Rows, noise_to_signal: Float64[Tensor, " T"]
) -> NeighbourRows:
    """Compute points, targets and ridges of one chunk of rows; differentiable."""
    measure = kernel_points(factors, rows.inputs)
    targets, log_slope = factors.output.forward(rows.targets)
    ridge = noise_to_signal.clamp(min=MIN_RIDGE).expand_as(targets)
    precision = log_precision(factors, rows.inputs)
    if precision is not None and factors.noise is not None:
        ridge = ridge * (-factors.noise.temper * precision).exp()
    if rows.weight is not None:
        ridge = ridge / rows.weight[:, None]
    is_far = thinned(rows.inputs.mean)
    return NeighbourRows(measure.mean, measure.variance, targets, log_slope, ridge, is_far)
