"""Scores of rows by ensembles that have not seen them.

The middle of a prediction and its spread to either side, which normalise conformal scores.

Rows scored by an ensemble that has not seen them.

The distance of inputs from the rows that a model has seen.
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
from sswim.rows.rows import Measure, Rows
from sswim.rows.scaling import no_scaling
from sswim.search.search import make_search

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


@dataclass(frozen=True)
class Scored(Record):
    """Scores of rows, each by the ensemble of its fold, which has not seen it.

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


NEAREST = 5
"""Number of nearest rows over which the distance is averaged, by benchmarks/change_evidence.py."""

_LARGEST = 1e100
"""Largest standardised input; the square of a larger one may overflow."""


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


def score_rows(
    ensembles: Sequence[Ensemble],
    rows: Rows,
    fold: Int64[Tensor, " N"],
    group: Int64[Tensor, " N"] | None = None,
) -> Scored:
    """Score standardised rows, each by the ensemble of its fold; the order of rows is kept.

    Args:
        ensembles: The ensemble of every fold, which has not seen its rows.
        rows: Standardised rows.
        fold: Number of each row's fold.
        group: Number of each row's group; None for one group.
    """
    if group is None:
        group = torch.zeros_like(fold)
    parts, order = [], []
    for number, ensemble in enumerate(ensembles):
        inside = (fold == number).nonzero()[:, 0]
        if len(inside):
            part = rows.take(inside)
            parts.append(_score(ensemble, part, fold[inside], group[inside]))
            order.append(inside)
    back = torch.cat(order).argsort()
    return concatenate(parts).map(lambda tensor: tensor[back])


def score_inputs(
    ensembles: Sequence[Ensemble], inputs: Measure, fold: Int64[Tensor, " N"]
) -> Scored:
    """Score standardised inputs without targets, each by the ensemble of its fold."""
    n_targets = len(ensembles[0].scaling.target_mean)
    unknown = torch.zeros(len(fold), n_targets, dtype=torch.float64, device=fold.device)
    scored = score_rows(ensembles, Rows(inputs, unknown), fold)
    return replace(scored, scores=unknown[:, :0], pit=unknown[:, :0])


def _score(
    ensemble: Ensemble, rows: Rows, fold: Int64[Tensor, " N"], group: Int64[Tensor, " N"]
) -> Scored:
    """Score the rows of one fold."""
    scaling = no_scaling(rows).to(device=rows.targets.device)
    mixture = replace(ensemble, scaling=scaling).predict(rows.inputs)
    predicted = spreads(mixture)
    weight = rows.targets.new_ones(len(rows)) if rows.weight is None else rows.weight
    return Scored(
        predicted.scores(rows.targets),
        mixture.cdf(rows.targets),
        predicted.median,
        input_distance(rows.inputs.mean, ensemble.rows),
        fold,
        group,
        weight * ensemble.scaling.weight_unit,
    )
