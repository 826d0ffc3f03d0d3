"""Gaussian measures: an input together with what is not known of it."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from sswim.record import Record


@dataclass(frozen=True)
class Measure(Record):
    """N(m, Σ) for every row; a row without variance is a point."""

    mean: Float[Tensor, "*N D"]
    """m"""
    variance: Float[Tensor, "*N D"] | Float[Tensor, "*N D D"] | None = None
    """The diagonal of Σ, or all of Σ, or None for points."""
