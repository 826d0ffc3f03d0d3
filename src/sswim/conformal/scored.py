"""Rows scored by an ensemble that has not seen them."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.record import Record


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
