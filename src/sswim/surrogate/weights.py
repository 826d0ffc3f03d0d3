"""Weights of the kinds of members, from rows that their training left out."""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

STEPS = 200
"""Number of steps of expectation and maximisation; each costs next to nothing."""

SMALLEST_WEIGHT = 1e-3
"""Kinds of a smaller weight are left out."""


def stacked_weights(log_densities: Float64[Tensor, "K N"]) -> Float64[Tensor, " K"]:
    """Return the weights w that maximise Σ_i log Σ_k w_k p_k(z_i), without the smallest ones.

    Densities of so few rows say little about corrections of the kinds' variances, which
    :mod:`sswim.recipe.stacking` learns as well.
    """
    n_kinds = len(log_densities)
    weights = log_densities.new_full((n_kinds,), 1 / n_kinds)
    for _ in range(STEPS):
        weights = (log_densities + weights.log()[:, None]).softmax(0).mean(1)
    weights = torch.where(weights < SMALLEST_WEIGHT, 0.0, weights)
    return weights / weights.sum()


def assign_folds(
    inputs: Float64[Tensor, "N D"], n_folds: int, generator: torch.Generator
) -> Int64[Tensor, " N"]:
    """Return the number of every row's fold, at random; rows with equal inputs stay together."""
    _, group = inputs.unique(dim=0, return_inverse=True)
    n_groups = int(group.max()) + 1
    return (torch.randperm(n_groups, generator=generator) % n_folds).to(group.device)[group]
