"""Conformity scores: how unusual rows are to ensembles that have not seen them.

The score of a row is the distance of its target from the predicted median, in units of the
predicted spread to that side. Spreads on both sides let scores follow skewed densities. Beside the
score stand what monitoring needs as well: the predicted probability of a smaller target (PIT), the
predicted median, and the distance of the inputs from the rows that the ensemble has seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import Record, concatenate
from sswim.ensemble.ensemble import Ensemble
from sswim.ensemble.mixture import Mixture
from sswim.rows.rows import Rows
from sswim.rows.scaling import no_scaling
from sswim.search import make_search

_ONE_SIDE = 0.5 * math.erfc(math.sqrt(0.5))
"""Φ(−1): a normal distribution has one standard deviation between this quantile and the median."""

_SMALLEST = 1e-9
"""Smallest spread, in units of the targets' spread: scores are divided by it."""

NEAREST = 5
"""Number of nearest rows averaged over; docs/monitoring.md compares others."""

_LARGEST = 1e100
"""Largest standardised input; the square of a larger one may overflow."""


@dataclass(frozen=True)
class Spreads(Record):
    """Median of predictions, and their spread to either side."""

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
    smallest = _SMALLEST * mixture.target_spread
    return Spreads(
        median,
        torch.maximum(median - lower, smallest),
        torch.maximum(upper - median, smallest),
    )


@dataclass(frozen=True)
class ConformityScores(Record):
    """Conformity scores of rows, each by the ensemble of its fold, which has not seen it.

    Where targets are not known, there are no columns of what depends on them: S is T or zero.
    """

    scores: Float64[Tensor, "N S"]
    """Distances of the targets from the predicted medians, in predicted spreads."""
    pit: Float64[Tensor, "N S"]
    """Predicted probabilities of values up to the targets."""
    median: Float64[Tensor, "N T"]
    """Predicted medians, in units of the targets' spreads."""
    distance: Float64[Tensor, " N"]
    """Distances of the inputs from those that the ensemble has seen."""
    fold: Int64[Tensor, " N"]
    """Numbers of the folds."""
    group: Int64[Tensor, " N"]
    """Numbers of the groups within which intervals have their coverage."""
    weight: Float64[Tensor, " N"]
    """How many times each row counts."""

    def without_targets(self) -> ConformityScores:
        """Return the record without the columns that depend on targets."""
        return replace(self, scores=self.scores[:, :0], pit=self.pit[:, :0])


def score_conformity(
    ensembles: Sequence[Ensemble],
    rows: Rows,
    fold: Int64[Tensor, " N"],
    group: Int64[Tensor, " N"] | None = None,
) -> ConformityScores:
    """Score standardised rows, each by the ensemble of its fold; the order of rows is kept.

    Args:
        ensembles: The ensemble of every fold, which has not seen its rows.
        rows: Standardised rows.
        fold: Number of each row's fold.
        group: Number of each row's group; None for one group.
    """
    if group is None:
        group = torch.zeros_like(fold)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    parts, order = [], []
    for number, ensemble in enumerate(ensembles):
        inside = (fold == number).nonzero()[:, 0]
        if len(inside) == 0:
            continue
        held_out = rows.take(inside)
        scaling = no_scaling(held_out).to(device=rows.targets.device)
        mixture = replace(ensemble, scaling=scaling).predict(held_out.inputs)
        predicted = spreads(mixture)
        part = ConformityScores(
            predicted.scores(held_out.targets),
            mixture.cdf(held_out.targets),
            predicted.median,
            input_distance(held_out.inputs.mean, ensemble.rows),
            fold[inside],
            group[inside],
            weight[inside] * ensemble.scaling.weight_unit,
        )
        parts.append(part)
        order.append(inside)
    back = torch.cat(order).argsort()
    return concatenate(parts).map(lambda tensor: tensor[back])


def input_distance(inputs: Float[Tensor, "N D"], seen: Rows | None) -> Float64[Tensor, " N"]:
    """Return the distance of each row from the rows seen, per root of the number of inputs.

    It is the mean distance from the nearest rows. For a model that keeps no rows it is the distance
    from their centre: the root mean square of the standardised inputs.

    Args:
        inputs: Standardised inputs.
        seen: Standardised rows that the model has seen; None if it does not keep them.
    """
    inputs = _bounded(inputs)
    if seen is None:
        return inputs.square().mean(1).sqrt()
    search = make_search(_bounded(seen.inputs.mean))
    squared = search.nearest(inputs, min(NEAREST, search.n_points)).squared
    return squared.sqrt().mean(1) / math.sqrt(inputs.shape[1])


def _bounded(inputs: Float[Tensor, "N D"]) -> Float64[Tensor, "N D"]:
    return inputs.to(torch.float64).clamp(-_LARGEST, _LARGEST)
