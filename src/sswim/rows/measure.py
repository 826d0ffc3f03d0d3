"""Gaussian measures: inputs together with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.base.record import Record

Variance = Float[Tensor, "*N D"] | Float[Tensor, "*N D D"]
"""The diagonal of a covariance, or all of it."""


@dataclass(frozen=True)
class Measure(Record):
    """A Gaussian N(m, Σ) for every row; a row without variance is a point.

    Its uncertainty has two causes, which are kept apart: the warps are uncertain functions, and
    the raw input itself may be uncertain.

    Rows lie along the last of the axes ``*N``. Where every member has its own measure, the axes of
    the members come before it.
    """

    mean: Float[Tensor, "*N D"]
    """m, the means."""
    variance: Float[Tensor, "*N D"] | Float[Tensor, "*N D D"] | None = None
    """Variance caused by the warps; None before the first warp."""
    input_variance: Float[Tensor, "*N D"] | Float[Tensor, "*N D D"] | None = None
    """Variance of the raw input, passed on by the warps; None if the input is known exactly."""


def full_covariance(mean: Float[Tensor, "*N D"], variance: Variance) -> Float[Tensor, "*N D D"]:
    """Return the covariance matrices, which may be given by their diagonals."""
    return torch.diag_embed(variance) if variance.ndim == mean.ndim else variance


def marginal_variance(measure: Measure) -> Float[Tensor, "*N D"] | None:
    """Return the variance of each coordinate from both causes; None for points."""
    parts = [
        full_covariance(measure.mean, variance).diagonal(dim1=-2, dim2=-1)
        for variance in (measure.variance, measure.input_variance)
        if variance is not None
    ]
    return sum(parts[1:], parts[0]) if parts else None
