"""Synthetic functions whose smoothness changes across the input space."""

from __future__ import annotations

from jaxtyping import Float64
from torch import Tensor


def gramacy_surface(x: Float64[Tensor, "*N 2"]) -> Float64[Tensor, "*N"]:
    """Return x₁ exp(−x₁² − x₂²): on [−2, 6]² a hill beside a valley in one corner, else flat.

    It is the example of Gramacy's treed GPs.
    """
    return x[..., 0] * (-x.square().sum(-1)).exp()
