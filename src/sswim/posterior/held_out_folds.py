"""Held-out folds of an ensemble: rows that some of its members did not see in training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from sswim.base.record import Record
from sswim.rows.row_keys import row_keys


@dataclass(frozen=True)
class HeldOutFolds(Record):
    """The folds of rows that members left out while their hyper-parameters were learnt.

    Rows with equal inputs are in the same fold, so that inputs tell the fold of a row.
    """

    keys: Int64[Tensor, " n"]
    """Keys of the inputs, standardised, in increasing order."""
    fold: Int64[Tensor, " n"]
    """The fold of each key."""
    weights: Float64[Tensor, "K members"]
    """Weights of the members that left out a fold, for every fold; zero for those that did not."""

    @property
    def n_folds(self) -> int:
        """K, the number of folds."""
        return len(self.weights)

    def fold_of(self, inputs: Float[Tensor, "N D"]) -> Int64[Tensor, " N"]:
        """Return the fold of standardised inputs; −1 for those in none."""
        if len(self.keys) == 0:
            return torch.full((len(inputs),), -1, device=self.keys.device)
        keys = row_keys(inputs.to(torch.float64))
        place = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return torch.where(self.keys[place] == keys, self.fold[place], -1)


def held_out_folds(
    folds: list[Float[Tensor, "_ D"]], weights: Float64[Tensor, "K members"]
) -> HeldOutFolds:
    """Make folds of their standardised inputs, and of the weights of members in each."""
    numbered = [torch.full((len(fold),), number) for number, fold in enumerate(folds)]
    keys = row_keys(torch.cat(folds).to(torch.float64))
    distinct, place = keys.unique(return_inverse=True)
    fold = torch.empty_like(distinct)
    fold[place] = torch.cat(numbered).to(fold.device)
    return HeldOutFolds(distinct, fold, weights)
