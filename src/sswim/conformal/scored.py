"""Rows scored by an ensemble that has not seen them."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.record import Record


@dataclass(frozen=True)
class Scored(Record):
    """Scores of rows, each by the ensemble of its fold, which has not seen it."""

    scores: Float64[Tensor, "N T"]
    """Distances of the targets from the predicted medians, in predicted spreads."""
    pit: Float64[Tensor, "N T"]
    """Predicted probabilities of values up to the targets."""
    distance: Float64[Tensor, " N"]
    """Distances of the inputs from those that the ensemble has seen."""
    fold: Int64[Tensor, " N"]
    """Numbers of the folds."""
    group: Int64[Tensor, " N"]
    """Numbers of the groups within which intervals have their coverage."""
    weight: Float64[Tensor, " N"]
    """How many times each row counts."""
