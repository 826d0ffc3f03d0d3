"""Effects: the function averaged over rows, with some columns set to each value of a grid.

The effect of the columns c at the value v is the average function (partial dependence)

    e(v) = (1/n) Σ_i f(x_i with c = v).

It is linear in f. With the posterior mean μ and the joint covariance C of f at these n points, its
mean is (1/n) Σ μ_i and its variance (1/n²) Σ C_ij. Errors of f at different rows are correlated, so
they average out only in part: a band by the mean of the variances would be too wide, and one by the
variance of a mean of independent values too narrow.

Each member has such a mean and variance, and the bands are quantiles of their mixture. A member of
little weight that is far from all others would widen bands by the mixture's standard deviation, and
hardly changes its quantiles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from sswim.base.record import concatenate
from sswim.model.output_warp import OutputMap
from sswim.posterior.density import Density
from sswim.posterior.ensemble import Ensemble
from sswim.posterior.mixture import Mixture
from sswim.posterior.prediction import Prediction

_SMALLEST_VARIANCE = 1e-20
"""Smallest variance of an average of standardised targets; a constant member has none."""


@dataclass(frozen=True)
class Effect:
    """The function averaged over rows, for each value of one column or of a pair of columns.

    The axes of ``mean``, ``standard_deviation``, ``lower`` and ``upper`` are those of the grids,
    one or two, and then one of targets unless ``fit`` got them as a flat array.
    """

    names: tuple[str, ...]
    """Names of the column or of both columns."""
    kinds: tuple[str, ...]
    """Kind of the values of each: ``"number"``, ``"category"`` or ``"time"``."""
    grids: tuple[Shaped[np.ndarray, " _"], ...]
    """Values that each column is set to: numbers, levels or times."""
    mean: Float64[np.ndarray, "*shape"]
    """Posterior mean of the average function, in the units of the targets."""
    standard_deviation: Float64[np.ndarray, "*shape"]
    """Its posterior standard deviation."""
    lower: Float64[np.ndarray, "*shape"]
    """Lower ends of its central bands."""
    upper: Float64[np.ndarray, "*shape"]
    """Upper ends of its central bands."""
    level: float
    """Probability of the bands at every value."""
    n_rows: int
    """Number of rows that are averaged over."""
    rows: tuple[Shaped[np.ndarray, " n"], ...]
    """Values of each column in the rows, or in a sample of many rows."""


@torch.no_grad()
def average_function(ensemble: Ensemble, sets: Iterable[Float64[Tensor, "n D"]]) -> Mixture:
    """Return the densities of the function averaged over each set of points.

    They are mixtures of the members' densities, each of which is Gaussian: the average of many
    values is close to normal, whatever they are.

    Args:
        ensemble: The members.
        sets: Sets of points in the units of the data.
    """
    used = ensemble.weights.nonzero()[:, 0].tolist()
    predictions: list[list[Prediction]] = [[] for _ in used]
    scaling = ensemble.scaling
    for points in sets:  # one after another: a covariance of all pairs of points is in memory
        for number, found in zip(used, predictions, strict=True):
            posterior = ensemble.alone(number).posterior(points)
            variance = posterior.covariance.mean((-2, -1)) / scaling.target_spread.square()
            variance = variance.clamp(min=_SMALLEST_VARIANCE)[None]
            mean = scaling.targets(posterior.mean.mean(0, keepdim=True))
            found.append(Prediction(mean, variance, variance))
    densities = [Density(concatenate(found), OutputMap(), scaling) for found in predictions]
    return Mixture(tuple(densities), ensemble.weights[used])
