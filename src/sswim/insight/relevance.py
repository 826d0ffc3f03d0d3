"""Relevance: how much each column matters to the function that was learnt.

With the posterior mean μ of the function, a column c whose inputs have the covariance Σ_c over the
rows has the relevance

    r_c ∝ mean over rows x of  ∇_cμ(x)ᵀ Σ_c ∇_cμ(x),

the variance that the function has, to first order, when the column varies as it does in the rows
and all others stay. A column of one number has the mean square of its slope in units of its spread.
Only changes of the function count that the values of a column can make: for the indicators of
levels, of which one at a time is one, Σ_c knows that.

The posterior mean is what the data have shown. The expected square of the slope would add its
posterior variance, which the prior gives to all inputs, and which is infinite for rough kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.insight.slopes import mean_slopes
from sswim.posterior.ensemble import Ensemble


@dataclass(frozen=True)
class Relevance:
    """How much each column matters; shares that add up to one, or zeros if none does."""

    names: tuple[str, ...]
    """Names of the columns."""
    relevance: Float64[np.ndarray, " C"]
    """Shares of the columns, for the mean of all members."""
    members: Float64[np.ndarray, "members C"]
    """Shares of the columns for each member alone; zeros if it is constant or has no weight."""

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
        inputs: Rows in the units of the data.
        columns: The places of the inputs of each column.
    """
    slopes = mean_slopes(ensemble, inputs)
    slopes = slopes / ensemble.scaling.target_spread[:, None]
    mixed = torch.einsum("m,mntd->ntd", ensemble.weights, slopes)
    every = torch.cat((mixed[None], slopes)).flatten(1, 2)  # (sets, N·T, D)
    centred = inputs - inputs.mean(0)
    found = []
    for places in map(list, columns):
        # ∇ᵀΣ∇ is the mean over rows of (∇ᵀ(x − mean))², and so never negative.
        covariance = centred[:, places].mT @ centred[:, places] / len(inputs)
        part = every[..., places]
        found.append(((part @ covariance) * part).sum(-1).clamp(min=0).mean(-1))
    total = torch.stack(found, dim=-1)
    whole = total.sum(-1, keepdim=True)
    return torch.where(whole > 0, total / torch.where(whole > 0, whole, 1.0), 0.0)
