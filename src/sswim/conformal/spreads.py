"""The middle of a prediction and its spread to either side, which normalise conformal scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record
from sswim.posterior.mixture import Mixture

_ONE_SIDE = 0.5 * math.erfc(math.sqrt(0.5))
"""Φ(−1): a normal distribution has one standard deviation between this quantile and the median."""

_SMALLEST = 1e-9
"""Smallest spread, in units of the targets' spread: scores are divided by it."""


@dataclass(frozen=True)
class Spreads(Record):
    """Median and spreads of predictions; a spread for each side follows skewed densities."""

    median: Float64[Tensor, "N T"]
    below: Float64[Tensor, "N T"]
    above: Float64[Tensor, "N T"]

    def scores(self, targets: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the distances of targets from the medians, in spreads; negative below."""
        error = targets - self.median
        return error / torch.where(error < 0, self.below, self.above)

    def values(self, scores: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the values that have given scores: the inverse of :meth:`scores`."""
        return self.median + scores * torch.where(scores < 0, self.below, self.above)


def spreads(mixture: Mixture) -> Spreads:
    """Return median and spreads of predictive densities."""
    lower, median, upper = mixture.quantiles([_ONE_SIDE, 0.5, 1 - _ONE_SIDE]).unbind(-1)
    smallest = _SMALLEST * mixture.members[0].scaling.target_spread
    return Spreads(
        median,
        torch.maximum(median - lower, smallest),
        torch.maximum(upper - median, smallest),
    )
