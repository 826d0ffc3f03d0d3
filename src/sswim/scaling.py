"""Standardising inputs and targets, and undoing it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sswim.measure import Measure, marginal_variance
from sswim.record import Record
from sswim.rows import Rows

_CONSTANT = 1e-14
"""A spread below this part of the largest value is rounding: the column is constant."""


@dataclass(frozen=True)
class Scaling(Record):
    """The means and spreads of the rows that a model was trained on."""

    input_mean: Float64[Tensor, " D"]
    input_spread: Float64[Tensor, " D"]
    target_mean: Float64[Tensor, " T"]
    target_spread: Float64[Tensor, " T"]

    def inputs(self, measure: Measure) -> Measure:
        """To zero mean and unit spread."""
        mean = (measure.mean.to(torch.float64) - self.input_mean) / self.input_spread
        variance = measure.input_variance
        if variance is not None:
            variance = variance / self.input_spread.square()
        return Measure(mean, input_variance=variance).to(dtype=measure.mean.dtype)

    def original_warps(self, measure: Measure) -> Measure:
        """A warped measure in the units of the inputs, so that no warp is the identity."""
        mean = measure.mean * self.input_spread + self.input_mean
        variance = marginal_variance(measure)
        if variance is not None:
            variance = variance * self.input_spread.square()
        return Measure(mean, variance)

    def targets(self, targets: Float64[Tensor, "*N T"]) -> Float64[Tensor, "*N T"]:
        """To zero mean and unit spread."""
        return (targets - self.target_mean) / self.target_spread

    def rows(self, rows: Rows) -> Rows:
        """To zero mean and unit spread."""
        return Rows(self.inputs(rows.inputs), self.targets(rows.targets), rows.weight)

    def original_targets(self, targets: Float64[Tensor, "*N T"]) -> Float64[Tensor, "*N T"]:
        """Back to the units of the targets."""
        return targets * self.target_spread + self.target_mean


def no_scaling(rows: Rows) -> Scaling:
    """That of rows which are standardised already."""
    (inputs,), (targets,) = rows.inputs.mean[:1].to(torch.float64), rows.targets[:1]
    return Scaling(
        torch.zeros_like(inputs),
        torch.ones_like(inputs),
        torch.zeros_like(targets),
        torch.ones_like(targets),
    )


def learn_scaling(rows: Rows) -> Scaling:
    """Weighted means and spreads; a constant column keeps its unit."""
    input_mean, input_spread = _moments(rows.inputs.mean.to(torch.float64), rows.weight)
    target_mean, target_spread = _moments(rows.targets, rows.weight)
    return Scaling(input_mean, input_spread, target_mean, target_spread)


def _moments(
    values: Float[Tensor, "N C"], weight: Float64[Tensor, " N"] | None
) -> tuple[Float64[Tensor, " C"], Float64[Tensor, " C"]]:
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    share = (
        values.new_full((len(values),), 1 / len(values))
        if weight is None
        else weight / weight.sum()
    )
    largest = values.abs().amax(0)
    unit = torch.where(largest > 0, largest, 1.0)  # squares must neither overflow nor vanish
    mean = share @ (values / unit)
    spread = (share @ (values / unit - mean).square()).sqrt()
    spread = torch.where(spread > _CONSTANT, spread * unit, 1.0)
    return mean * unit, spread
