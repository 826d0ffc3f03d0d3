"""Standardising inputs, targets and weights, and undoing it.

Inputs and targets get zero mean and unit spread, from moments that can be added up over sets of
rows. Two things in tables would spoil that:

Wild inputs are so far from all others that they can only be mistakes. One cell of 1e12 in a column
of percentages would set the spread of the whole column, and all other values would look alike. Such
a value is taken as the farthest value that is not wild, in training and in predictions, and a
warning names the column. How far is far is measured by the median and the width of a column, which
do not depend on a few values.

Of weights only ratios say something: all weights doubled, or every row given twice, is the same
table. So weights are divided by a unit, the weight of a row that counts as one observation. It is
the largest number of which all weights are multiples, if there is one: a row given three times then
counts as three observations. Weights that are no multiples, or that are large though every row has
its own inputs, are shares of importance rather than counts, and their unit is their mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.rows.rows import Measure, Rows, marginal_variance

_WIDTHS = ((0.25, 0.75), (0.1, 0.9), (0.01, 0.99))
"""Quantiles whose distance is the width of a column: of the first pair that are not equal."""

_LARGEST = float(np.finfo(np.float64).max)


def column_width(values: Float64[np.ndarray, " N"]) -> float | None:
    """Return the width of a column without missing values; None if almost all are equal.

    Unlike the standard deviation it does not grow with a few values far away.
    """
    quarters = 0.25 * values  # of the largest numbers, too, the differences are numbers
    for lower, upper in _WIDTHS:
        width = float(np.quantile(quarters, upper) - np.quantile(quarters, lower))
        if width > 0:
            return min(4 * width, _LARGEST)
    return None


def column_median(values: Float64[np.ndarray, " N"]) -> float:
    """Return the median of a column without missing values, also of the largest numbers."""
    return 4 * float(np.median(0.25 * values))


@dataclass(frozen=True)
class Moments(Record):
    """Total weight, means and spreads of columns; ``+`` combines those of two sets of rows."""

    weight: Float64[Tensor, ""]
    mean: Float64[Tensor, " C"]
    spread: Float64[Tensor, " C"]
    lowest: Float64[Tensor, " C"]
    highest: Float64[Tensor, " C"]

    @property
    def unit(self) -> Float64[Tensor, " C"]:
        """The unit in which squares neither overflow nor vanish."""
        return _unit(self.lowest, self.highest)

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        if total == 0:
            return self
        lowest = torch.minimum(self.lowest, other.lowest)
        highest = torch.maximum(self.highest, other.highest)
        unit = _unit(lowest, highest)
        share = other.weight / total
        shift = other.mean / unit - self.mean / unit
        within = (1 - share) * (self.spread / unit).square() + share * (
            other.spread / unit
        ).square()
        spread = (within + share * (1 - share) * shift.square()).sqrt()
        return Moments(total, self.mean + share * shift * unit, spread * unit, lowest, highest)


def moments(values: Float[Tensor, "N C"], weight: Float64[Tensor, " N"] | None) -> Moments:
    """Compute the moments of the rows whose weight is positive."""
    values = values.to(torch.float64)
    if weight is not None:
        values, weight = values[weight > 0], weight[weight > 0]
    if len(values) == 0:
        nothing = values.new_zeros(values.shape[1])
        limit = torch.full_like(nothing, torch.inf)
        return Moments(values.new_zeros(()), nothing, nothing, limit, -limit)
    total = values.new_full((), len(values)) if weight is None else weight.sum()
    share = values.new_full((len(values),), 1 / len(values)) if weight is None else weight / total
    lowest, highest = values.aminmax(dim=0)
    unit = _unit(lowest, highest)
    mean = share @ (values / unit)
    spread = (share @ (values / unit - mean).square()).sqrt()
    return Moments(total, mean * unit, spread * unit, lowest, highest)


def _unit(lowest: Float64[Tensor, " C"], highest: Float64[Tensor, " C"]) -> Float64[Tensor, " C"]:
    """Return the largest absolute value of every column, or one where all are zero."""
    largest = torch.maximum(highest, -lowest)
    return torch.where(largest > 0, largest, 1.0)


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
    """Weight of a row that counts as one observation; see :mod:`sswim.rows.scaling`."""
    input_low: Float64[Tensor, " D"]
    """Smaller inputs are taken as this; −∞ unless a column has wild values."""
    input_high: Float64[Tensor, " D"]
    """Larger inputs are taken as this; see :mod:`sswim.rows.scaling`."""

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
    one = rows.targets.new_ones(())
    standard = (
        Moments(one, zero, zero + 1, zero, zero)
        for zero in (one.new_zeros(rows.inputs.mean.shape[-1]), torch.zeros_like(rows.targets[0]))
    )
    return scaling_of(*standard)


def scaling_of(inputs: Moments, targets: Moments) -> Scaling:
    """Make a scaling of moments; a constant column is only centred."""
    limit = torch.full_like(inputs.mean, torch.inf)
    spreads = _scale(inputs), _scale(targets)
    one = inputs.mean.new_ones(())
    return Scaling(inputs.mean, spreads[0], targets.mean, spreads[1], one, -limit, limit)


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


def _scale(moments: Moments) -> Float64[Tensor, " C"]:
    # The values of a constant column differ from their mean by its rounding, however large.
    rounding = (_CONSTANT * moments.unit).clamp(min=1.0)
    return torch.where(_is_constant(moments), rounding, moments.spread)


def _is_constant(moments: Moments) -> Bool[Tensor, " C"]:
    return moments.spread / moments.unit <= _CONSTANT


_FAR = 1e4
"""Distance of a wild value from the median, in widths of the column."""


def tame(
    scaling: Scaling,
    sample: Rows,
    inputs: Moments,
    names: Sequence[str] | None = None,
    bounded: Collection[int] = (),
) -> Scaling:
    """Return a scaling that limits the columns with wild values, and warn of these.

    Args:
        scaling: The scaling of all rows.
        sample: Some rows, or all.
        inputs: Moments of the inputs of all rows.
        names: Names of the inputs.
        bounded: Inputs that are never wild, because they are coordinates of points on a sphere: if
            most points are in one town, others are far away and yet no mistakes.
    """
    low, high = scaling.input_low.clone(), scaling.input_high.clone()
    for number, column in enumerate(sample.inputs.mean.to(torch.float64).cpu().numpy().T):
        bottom, top = inputs.lowest[number].item(), inputs.highest[number].item()
        limits = None if number in bounded else _range(column, bottom, top)
        if limits is None:
            continue
        low[number], high[number] = limits
        name = f"Column {number} of X" if names is None else f"Input {names[number]!r}"
        wild = top if top > limits[1] else bottom
        warnings.warn(
            f"{name} has a value, {wild:.4g}, that is more than {_FAR:.0e} times as far from the "
            f"median as half of the values. Values outside {limits[0]:.4g} to {limits[1]:.4g} are "
            "taken as these limits: correct or remove it if it is a mistake.",
            stacklevel=3,
        )
    is_wild = ~(low.isinf() & high.isinf())
    if not is_wild.any():
        return scaling
    limited = sample.inputs.mean.to(torch.float64).clamp(low, high)
    of_limited = scaling_of(moments(limited, sample.weight), moments(sample.targets, sample.weight))
    return replace(
        scaling,
        input_mean=torch.where(is_wild, of_limited.input_mean, scaling.input_mean),
        input_spread=torch.where(is_wild, of_limited.input_spread, scaling.input_spread),
        input_low=low,
        input_high=high,
    )


def _range(
    column: Float64[np.ndarray, " N"], lowest: float, highest: float
) -> tuple[float, float] | None:
    """Return the limits of the values of a column that are not wild; None if no value is.

    They are as far from the median on both sides as the farthest such value of the sample.
    """
    middle = column_median(column)
    width = column_width(column)
    if width is None or max(highest - middle, middle - lowest) <= _FAR * width:
        return None
    usual = column[np.abs(column - middle) <= _FAR * width]
    reach = float(np.abs(usual - middle).max())
    return middle - reach, middle + reach


_ROUNDING = 1e-9
"""Relative distance of a multiple from the next integer."""

_MANY = 10.0
"""Mean count above which rows with inputs of their own are not counts of observations."""


def weight_unit(rows: Rows) -> float:
    """Return the unit of the weights of rows; one if they have none."""
    if rows.weight is None:
        return 1.0
    weights = rows.weight[rows.weight > 0].cpu().numpy()
    mean = float(weights.mean())
    divisor = _common_divisor(weights)
    if divisor is not None and mean > _MANY * divisor:
        # Counts are large where most rows share their inputs with a row that has another target.
        _, counts = torch.unique(rows.inputs.mean, dim=0, return_counts=True)
        if counts[counts > 1].sum() <= len(rows) / 2:
            return mean
    return mean if divisor is None else divisor


def _common_divisor(weights: Float64[np.ndarray, " N"]) -> float | None:
    """Return the largest number of which all weights are multiples, if one is found."""
    for unit in (float(weights.min()), 1.0):
        ratios = weights / unit
        counts = np.rint(ratios)
        if counts.max() < 2**53 and np.all(np.abs(ratios - counts) <= _ROUNDING * ratios):
            return unit * int(np.gcd.reduce(counts.astype(np.int64)))
    return None
