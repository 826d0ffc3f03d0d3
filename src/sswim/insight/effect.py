"""Effects: the function averaged over rows, with some columns set to each value of a grid.

The effect of the columns c at the value v is the average function (partial dependence)

    e(v) = (1/n) Σ_i f(x_i with c = v).

It is linear in f. With the posterior mean μ and the joint covariance C of f at these n points, its
mean is (1/n) Σ μ_i and its variance (1/n²) Σ C_ij. Errors of f at different rows are correlated, so
they average out only in part: a band by the mean of the variances would be too wide, and one by the
variance of a mean of independent values too narrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Shaped
from scipy import special
from torch import Tensor

from sswim.posterior.ensemble import Ensemble


@dataclass(frozen=True)
class Effect:
    """The function averaged over rows, for each value of one column or of a pair of columns.

    The axes of ``mean``, ``standard_deviation``, ``lower`` and ``upper`` are those of the grids,
    one or two, and then one of targets unless ``fit`` got them as a flat array.
    """

    names: tuple[str, ...]
    """Names of the column or of both columns."""
    kinds: tuple[str, ...]
    """What they hold: ``"number"``, ``"category"`` or ``"time"``."""
    grids: tuple[Shaped[np.ndarray, " _"], ...]
    """Values that each column is set to: numbers, levels or times."""
    mean: Float64[np.ndarray, "*shape"]
    """Posterior mean of the average function, in the units of the targets."""
    standard_deviation: Float64[np.ndarray, "*shape"]
    """Its posterior standard deviation."""
    level: float
    """Probability of the bands."""
    rows: tuple[Shaped[np.ndarray, " n"], ...]
    """Values of each column in the rows that are averaged over."""

    @property
    def lower(self) -> Float64[np.ndarray, "*shape"]:
        """Lower ends of central bands."""
        return self.mean - self._reach

    @property
    def upper(self) -> Float64[np.ndarray, "*shape"]:
        """Upper ends of central bands."""
        return self.mean + self._reach

    @property
    def n_rows(self) -> int:
        """Number of rows that are averaged over."""
        return len(self.rows[0])

    @property
    def _reach(self) -> Float64[np.ndarray, "*shape"]:
        # The average of many values is close to normal, whatever they are.
        return special.ndtri(0.5 * (1 + self.level)) * self.standard_deviation


@torch.no_grad()
def average_function(
    ensemble: Ensemble, sets: Iterable[Float64[Tensor, "n D"]]
) -> tuple[Float64[Tensor, "G T"], Float64[Tensor, "G T"]]:
    """Return the mean and the variance of the function averaged over each set of points.

    Args:
        ensemble: The members.
        sets: Sets of points in the units of the data.
    """
    means, variances = [], []
    for points in sets:  # one after another: a covariance of all pairs of points is in memory
        found = ensemble.posterior(points)
        means.append(found.mean.mean(0))
        variances.append(found.covariance.mean((-2, -1)).clamp(min=0))
    return torch.stack(means), torch.stack(variances)
