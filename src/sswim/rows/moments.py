"""Means and spreads of columns that can be added up over sets of rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.base.record import Record


@dataclass(frozen=True)
class Moments(Record):
    """Total weight, means and spreads of columns; ``+`` combines those of two sets of rows."""

    weight: Float64[Tensor, ""]
    mean: Float64[Tensor, " C"]
    spread: Float64[Tensor, " C"]
    largest: Float64[Tensor, " C"]
    """Largest absolute values: the units in which squares neither overflow nor vanish."""

    @property
    def unit(self) -> Float64[Tensor, " C"]:
        """The largest absolute value of a column, or one where all are zero."""
        return _unit(self.largest)

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        if total == 0:
            return self
        largest = torch.maximum(self.largest, other.largest)
        unit = _unit(largest)
        share = other.weight / total
        shift = other.mean / unit - self.mean / unit
        within = (1 - share) * (self.spread / unit).square() + share * (
            other.spread / unit
        ).square()
        spread = (within + share * (1 - share) * shift.square()).sqrt()
        return Moments(total, self.mean + share * shift * unit, spread * unit, largest)


def moments(values: Float[Tensor, "N C"], weight: Float64[Tensor, " N"] | None) -> Moments:
    """Compute the moments of the rows whose weight is positive."""
    values = values.to(torch.float64)
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    if len(values) == 0:
        nothing = values.new_zeros(values.shape[1])
        return Moments(values.new_zeros(()), nothing, nothing, nothing)
    total = values.new_full((), len(values)) if weight is None else weight.sum()
    share = values.new_full((len(values),), 1 / len(values)) if weight is None else weight / total
    largest = values.abs().amax(0)
    unit = _unit(largest)
    mean = share @ (values / unit)
    spread = (share @ (values / unit - mean).square()).sqrt()
    return Moments(total, mean * unit, spread * unit, largest)


def _unit(largest: Float64[Tensor, " C"]) -> Float64[Tensor, " C"]:
    return torch.where(largest > 0, largest, 1.0)
