"""Fourier features of points, and expected Fourier features of Gaussian measures."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.measure import Measure


def expected_features(frequencies: Float[Tensor, "M D"], measure: Measure) -> Float[Tensor, "*N F"]:
    """Expected features E φ(x) of x ~ N(m, Σ), F = 2M of them.

        E φ = M^{-1/2} exp(−½ diag(ΩΣΩᵀ)) ⊙ [cos Ωm, sin Ωm]

    For a point the exponential is one and ‖φ(x)‖² = 1, so that k(x, x) = 1. (The paper prints
    √(2/M), with which k(x, x) = 2.)
    """
    phase = measure.mean @ frequencies.mT  # Ωm
    scale: Tensor | float = len(frequencies) ** -0.5
    if measure.variance is not None:
        scale = scale * (-0.5 * _phase_variance(frequencies, measure)).exp()
    return torch.cat((phase.cos() * scale, phase.sin() * scale), dim=-1)


def _phase_variance(frequencies: Float[Tensor, "M D"], measure: Measure) -> Float[Tensor, "*N M"]:
    """diag(ΩΣΩᵀ), the variance of Ωx."""
    variance = measure.variance
    assert variance is not None
    if variance.ndim == measure.mean.ndim:
        return variance @ frequencies.square().mT
    return ((frequencies @ variance) * frequencies).sum(-1)
