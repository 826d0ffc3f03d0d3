"""Quantiles of CV+: order statistics of values that held-out rows suggest for a new row.

Row i of fold k has the score s_i by the ensemble that has not seen the fold. At a new input that
ensemble predicts a median and spreads, and so the value v_i that has the score s_i there. If rows
are exchangeable, the new target is about equally likely to fall between any two of the n values:

    lower quantiles   the ⌊p(n + 1)⌋th smallest value
    upper quantiles   the ⌈p(n + 1)⌉th smallest value, for p ≥ ½

With one fold this is split conformal prediction, and an interval between the quantiles α/2 and
1 − α/2 covers with a probability of at least 1 − α, whatever the distribution and the model. With
several folds it is CV+ (Barber, Candès, Ramdas and Tibshirani, 2021), which covers with at least
1 − 2α, and in practice with 1 − α.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.conformal.scoring import Spreads

_ROUNDING = 1e-9
"""Part of a row by which ranks may be off: p(n + 1) may be a whole number but for rounding."""

_HALVINGS = 70
"""Number of halvings of the range that holds a quantile: more than there are bits."""


@dataclass(frozen=True)
class FoldScores:
    """The scores of a fold, sorted, for every target."""

    scores: Float64[Tensor, "T n"]
    before: Float64[Tensor, "T n_1"]
    """Weight of the first 0, 1, … n rows in that order."""

    def weight_below(self, scores: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        """Return the weight of the rows whose scores are at most given ones."""
        places = torch.searchsorted(self.scores, scores.mT.contiguous(), right=True)
        return self.before.gather(1, places).mT


def sort_scores(scores: Float64[Tensor, "n T"], weight: Float64[Tensor, " n"]) -> FoldScores:
    """Sort the scores of a fold, with their weights."""
    ordered, order = scores.mT.contiguous().sort(dim=1)
    before = torch.nn.functional.pad(weight[order].cumsum(1), (1, 0))
    return FoldScores(ordered, before)


def least_rows(probability: float) -> float:
    """Return the number of held-out rows that a quantile needs to be finite."""
    return 1 / min(probability, 1 - probability) - 1 - _ROUNDING


def cross_quantiles(
    spreads: Sequence[Spreads], folds: Sequence[FoldScores], probabilities: Sequence[float]
) -> Float64[Tensor, "N T Q"]:
    """Return the conformal quantiles of new rows.

    Args:
        spreads: Predictions of the new rows by the ensemble of every fold.
        folds: Scores of the folds, of at least ``least_rows`` rows together.
        probabilities: Probabilities of the quantiles.
    """
    # A fold may have no rows of a group.
    pairs = [each for each in zip(spreads, folds, strict=True) if each[1].scores.shape[1] > 0]
    n_rows = sum(float(fold.before[0, -1]) for fold in folds)

    def weight_below(values: Float64[Tensor, "N T"]) -> Float64[Tensor, "N T"]:
        parts = [fold.weight_below(spread.scores(values)) for spread, fold in pairs]
        return torch.stack(parts).sum(0)

    ends = [
        torch.stack([spread.values(fold.scores[:, place].expand_as(spread.median))
                     for spread, fold in pairs])
        for place in (0, -1)
    ]  # fmt: skip
    lowest, highest = ends[0].amin(0), ends[1].amax(0)
    found = []
    for probability in probabilities:
        rank = probability * (n_rows + 1)
        least = rank - 1 + _ROUNDING if probability < 0.5 else rank - _ROUNDING
        low, high = lowest, highest  # of the smallest value with at least this weight below it
        for _ in range(_HALVINGS):
            middle = 0.5 * low + 0.5 * high
            enough = weight_below(middle) >= least
            low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
        found.append(torch.where(weight_below(lowest) >= least, lowest, high))
    return torch.stack(found, dim=-1)
