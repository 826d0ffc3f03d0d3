"""Gaussian measures: an input together with what is not known of it."""

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
    """N(m, Σ) for every row; a row without variance is a point.

    Two things may be unknown. The warps below have an uncertainty of their own; and the raw input
    itself may be uncertain, which matters for what the warps and the function make of it.

    Rows lie along the last of the axes *N; where members have measures of their own, the members'
    axes come before it.
    """

    mean: Float[Tensor, "*N D"]
    """m"""
    variance: Float[Tensor, "*N D"] | Float[Tensor, "*N D D"] | None = None
    """Of the warps; None before the first."""
    input_variance: Float[Tensor, "*N D"] | Float[Tensor, "*N D D"] | None = None
    """Of the raw input, as the warps have passed it on; None if it is known exactly."""


def full_covariance(mean: Float[Tensor, "*N D"], variance: Variance) -> Float[Tensor, "*N D D"]:
    """All of a covariance of which the diagonal may be given."""
    return torch.diag_embed(variance) if variance.ndim == mean.ndim else variance


def marginal_variance(measure: Measure) -> Float[Tensor, "*N D"] | None:
    """The variance of each coordinate, whatever its cause; None for points."""
    parts = [
        full_covariance(measure.mean, variance).diagonal(dim1=-2, dim2=-1)
        for variance in (measure.variance, measure.input_variance)
        if variance is not None
    ]
    return sum(parts[1:], parts[0]) if parts else None
