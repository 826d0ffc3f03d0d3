"""Standardising inputs and targets, and undoing it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.rows.measure import Measure, marginal_variance
from sswim.rows.moments import Moments, moments
from sswim.rows.rows import Rows

_CONSTANT = 1e-14
"""A column is constant if its spread is below this fraction of its largest absolute value."""

_FARTHEST = 1e4
"""Largest distance of an input from the mean, in spreads: beyond it nothing more is known, and
distances between neighbours would be lost in rounding."""

_WIDEST = 1e4
"""Largest standard deviation of an input, in spreads: such an input is not known at all."""


@dataclass(frozen=True)
class Scaling(Record):
    """Means and standard deviations of the rows that a model was trained on."""

    input_mean: Float64[Tensor, " D"]
    input_spread: Float64[Tensor, " D"]
    target_mean: Float64[Tensor, " T"]
    target_spread: Float64[Tensor, " T"]
    weight_unit: Float64[Tensor, ""]
    """Weight of a row that counts as one observation; see :mod:`sswim.rows.weight_unit`."""
    input_low: Float64[Tensor, " D"]
    """Smaller inputs are taken as this; −∞ unless a column has wild values."""
    input_high: Float64[Tensor, " D"]
    """Larger inputs are taken as this; see :mod:`sswim.rows.wild_inputs`."""

    def inputs(self, measure: Measure) -> Measure:
        """Standardise inputs to zero mean and unit spread.

        Absurd distances and standard deviations are limited, so that their squares stay finite.
        """
        tame = measure.mean.to(torch.float64).clamp(self.input_low, self.input_high)
        mean = ((tame - self.input_mean) / self.input_spread).clamp(-_FARTHEST, _FARTHEST)
        variance = measure.input_variance
        if variance is not None:
            # Not divided by the square of the spread, which may overflow or vanish.
            variance = (variance / self.input_spread / self.input_spread).clamp(max=_WIDEST**2)
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
        """Standardise inputs and targets, and divide weights by their unit."""
        weight = rows.weight
        if weight is None and self.weight_unit != 1:
            weight = rows.targets.new_ones(len(rows))
        if weight is not None:
            weight = weight / self.weight_unit
        return Rows(self.inputs(rows.inputs), self.targets(rows.targets), weight)

    def original_targets(self, targets: Float64[Tensor, "*N T"]) -> Float64[Tensor, "*N T"]:
        """Return standardised targets in their original units."""
        return targets * self.target_spread + self.target_mean


def no_scaling(rows: Rows) -> Scaling:
    """Return the scaling of rows that are standardised already."""
    (inputs,), (targets,) = rows.inputs.mean[:1].to(torch.float64), rows.targets[:1]
    return _scaling(
        torch.zeros_like(inputs),
        torch.ones_like(inputs),
        torch.zeros_like(targets),
        torch.ones_like(targets),
    )


def scaling_of(inputs: Moments, targets: Moments) -> Scaling:
    """Make a scaling of moments; a constant column is only centred."""
    return _scaling(inputs.mean, _scale(inputs), targets.mean, _scale(targets))


def share_spreads(scaling: Scaling, groups: Iterable[tuple[int, ...]], inputs: Moments) -> Scaling:
    """Return a scaling in which the inputs of each group have the spread of all of them.

    Args:
        scaling: A scaling in which each input has its own spread.
        groups: Groups of inputs that share a unit.
        inputs: Moments of the inputs, in which constant ones have no spread.
    """
    spread = scaling.input_spread.clone()
    varies = ~_is_constant(inputs)
    for group in map(list, groups):
        if varies[group].any():
            spread[group] = (spread[group].square() * varies[group]).mean().sqrt()
    return replace(scaling, input_spread=spread)


def learn_scaling(rows: Rows) -> Scaling:
    """Return the scaling of weighted rows."""
    return scaling_of(moments(rows.inputs.mean, rows.weight), moments(rows.targets, rows.weight))


def _scaling(
    input_mean: Float64[Tensor, " D"],
    input_spread: Float64[Tensor, " D"],
    target_mean: Float64[Tensor, " T"],
    target_spread: Float64[Tensor, " T"],
) -> Scaling:
    """Return a scaling that keeps weights and all inputs as they are."""
    limit = torch.full_like(input_mean, torch.inf)
    one = input_mean.new_ones(())
    return Scaling(input_mean, input_spread, target_mean, target_spread, one, -limit, limit)


def _scale(moments: Moments) -> Float64[Tensor, " C"]:
    # The values of a constant column differ from their mean by its rounding, however large.
    rounding = (_CONSTANT * moments.unit).clamp(min=1.0)
    return torch.where(_is_constant(moments), rounding, moments.spread)


def _is_constant(moments: Moments) -> Bool[Tensor, " C"]:
    return moments.spread / moments.unit <= _CONSTANT
