"""Relevance: how much each column matters to the function that was learnt.

With the posterior mean f of the function, the relevance of a column c is

    r_c ∝ ½ E (f(x) − f(x'))²,

where x is a row, and x' the same row with the column's value from another row. For independent
columns this is E Var(f | all other columns), the variance that the column makes by itself and
together with others (its total effect; Jansen 1999). It needs no slopes: fine ripples count by
their size and not by their steepness, and numbers, levels, times and missing values count alike.

The mean is what the data have shown. Where they show nothing it does not vary, so columns that do
not matter have almost no relevance; drawn functions would vary there too, as the prior does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.ensemble.ensemble import Ensemble


@dataclass(frozen=True)
class Relevance:
    """How much each column matters; shares that add up to one, or zeros if no column matters."""

    names: tuple[str, ...]
    """Names of the columns."""
    relevance: Float64[np.ndarray, " C"]
    """Shares of the columns, for the mean of all members."""
    members: Float64[np.ndarray, "members C"]
    """Shares of the columns for each member alone; zeros if it is constant or has no weight."""
    weights: Float64[np.ndarray, " members"]
    """Weights of the members."""

    @property
    def order(self) -> list[int]:
        """Places of the columns, the most relevant first."""
        return [int(place) for place in np.argsort(-self.relevance, kind="stable")]


def relevance_of(
    ensemble: Ensemble, inputs: Float64[Tensor, "N D"], columns: Sequence[Sequence[int]]
) -> Float64[Tensor, "sets C"]:
    """Return the shares of columns for the mean of all members, then for each member alone.

    Several targets count alike, in units of their spreads.

    Args:
        ensemble: The members.
        inputs: Two or more rows in the units of the data.
        columns: The places of the inputs of each column.
    """
    others = inputs[_other_rows(len(inputs)).to(inputs.device)]
    sets = [inputs]  # the rows as they are, and then with one column changed after another
    for places in map(list, columns):
        changed = inputs.clone()
        changed[:, places] = others[:, places]
        sets.append(changed)
    shape = (len(ensemble.members), 1 + len(columns), -1)
    means = _member_means(ensemble, torch.cat(sets)).reshape(shape)
    mixed = torch.einsum("m,mcn->cn", ensemble.weights, means)
    functions = torch.cat((mixed[None], means))
    changes = (functions[:, 1:] - functions[:, :1]).square().mean(-1)
    total = changes.sum(-1, keepdim=True)
    return torch.where(total > 0, changes / torch.where(total > 0, total, 1.0), 0.0)


def _other_rows(n_rows: int) -> Int64[Tensor, " N"]:
    """Return another row for each row, drawn at random: every row is drawn once."""
    order = np.random.default_rng(0).permutation(n_rows)
    giver = np.empty_like(order)
    giver[order] = np.roll(order, 1)
    return torch.from_numpy(giver)


@torch.no_grad()
def _member_means(
    ensemble: Ensemble, points: Float64[Tensor, "N D"]
) -> Float64[Tensor, "members N T"]:
    """Return the mean of the function of every member, in units of the targets' spreads.

    Members without weight have zeros.
    """
    nothing = points.new_zeros(len(points), len(ensemble.scaling.target_mean))
    means = []
    for member, weight in enumerate(ensemble.weights.tolist()):
        posterior = ensemble.alone(member).posterior
        mean = nothing if weight == 0 else posterior(points[:, None]).mean[:, 0]
        means.append(mean / ensemble.scaling.target_spread)
    return torch.stack(means)
