"""Standardising inputs and targets, and undoing it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.rows.measure import Measure, marginal_variance
from sswim.rows.moments import Moments, moments
from sswim.rows.rows import Rows

_CONSTANT = 1e-14
"""A column is constant if its spread is below this fraction of its largest absolute value."""


@dataclass(frozen=True)
class Scaling(Record):
    """Means and standard deviations of the rows that a model was trained on."""

    input_mean: Float64[Tensor, " D"]
    input_spread: Float64[Tensor, " D"]
    target_mean: Float64[Tensor, " T"]
    target_spread: Float64[Tensor, " T"]

    def inputs(self, measure: Measure) -> Measure:
        """Standardise inputs to zero mean and unit spread."""
        mean = (measure.mean.to(torch.float64) - self.input_mean) / self.input_spread
        variance = measure.input_variance
        if variance is not None:
            variance = variance / self.input_spread.square()
        return Measure(mean, input_variance=variance).to(dtype=measure.mean.dtype)

    def original_warps(self, measure: Measure) -> Measure:
        """Return a warped measure in input units, so that an absent warp is the identity."""
        mean = measure.mean * self.input_spread + self.input_mean
        variance = marginal_variance(measure)
        if variance is not None:
            variance = variance * self.input_spread.square()
        return Measure(mean, variance)

    def targets(self, targets: Float64[Tensor, "*N T"]) -> Float64[Tensor, "*N T"]:
        """Standardise targets to zero mean and unit spread."""
        return (targets - self.target_mean) / self.target_spread

    def rows(self, rows: Rows) -> Rows:
        """Standardise inputs and targets."""
        return Rows(self.inputs(rows.inputs), self.targets(rows.targets), rows.weight)

    def original_targets(self, targets: Float64[Tensor, "*N T"]) -> Float64[Tensor, "*N T"]:
        """Return standardised targets in their original units."""
        return targets * self.target_spread + self.target_mean


def no_scaling(rows: Rows) -> Scaling:
    """Return the scaling of rows that are standardised already."""
    (inputs,), (targets,) = rows.inputs.mean[:1].to(torch.float64), rows.targets[:1]
    return Scaling(
        torch.zeros_like(inputs),
        torch.ones_like(inputs),
        torch.zeros_like(targets),
        torch.ones_like(targets),
    )


def scaling_of(inputs: Moments, targets: Moments) -> Scaling:
    """Make a scaling of moments; a constant column is only centred."""
    return Scaling(inputs.mean, _scale(inputs), targets.mean, _scale(targets))


def learn_scaling(rows: Rows) -> Scaling:
    """Return the scaling of weighted rows."""
    return scaling_of(moments(rows.inputs.mean, rows.weight), moments(rows.targets, rows.weight))


def _scale(moments: Moments) -> Float64[Tensor, " C"]:
    constant = moments.spread / moments.unit <= _CONSTANT
    return torch.where(constant, 1.0, moments.spread)
