"""Fourier features of points, and expected Fourier features of Gaussian measures."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.measure import Measure, Variance, full_covariance


def expected_features(
    frequencies: Float[Tensor, "*B M D"], measure: Measure
) -> Float[Tensor, "*B N F"]:
    """Expected features E φ(x) of x ~ N(m, Σ), F = 2M of them.

        E φ = M^{-1/2} exp(−½ diag(ΩΣΩᵀ)) ⊙ [cos Ωm, sin Ωm]

    For a point the exponential is one and ‖φ(x)‖² = 1, so that k(x, x) = 1. (The paper prints
    √(2/M), with which k(x, x) = 2.)

    Here and below a measure may be shared by all members, or have one of its rows for each.
    """
    phase = measure.mean @ frequencies.mT  # Ωm
    scale: Tensor | float = frequencies.shape[-2] ** -0.5
    damping = _log_damping(frequencies, measure)
    if damping is not None:
        scale = scale * damping.exp()
    return torch.cat((phase.cos() * scale, phase.sin() * scale), dim=-1)


def feature_slopes(
    frequencies: Float[Tensor, "*B M D"],
    features: Float[Tensor, "*B N F"],
    weights: Float[Tensor, "*B F Q"],
) -> Float[Tensor, "*B N Q D"]:
    """∂(Wᵀ E φ)/∂m from the expected features themselves: a derivative turns cosine into −sine."""
    cosine, sine = features.chunk(2, dim=-1)
    turned = torch.cat((-sine, cosine), dim=-1)
    twice = torch.cat((frequencies, frequencies), dim=-2)
    directions = weights[..., None] * twice[..., None, :]  # (F, Q, D)
    return (turned @ directions.flatten(-2)).unflatten(-1, directions.shape[-2:])


def expected_quadratic(
    frequencies: Float[Tensor, "*B M D"], measure: Measure, form: Float[Tensor, "*B F F"]
) -> Float[Tensor, "*B N"]:
    """E[φ(x)ᵀ Q φ(x)] over the raw input's uncertainty, for a symmetric Q.

    With c and s the cosines and sines of Ωm, e the damping of the expected features and
    K = ΩPΩᵀ for the input's covariance P, the second moments are closed form:

        E[cos cosᵀ] = eeᵀ ∘ (ccᵀ ∘ cosh K + ssᵀ ∘ sinh K)
        E[sin sinᵀ] = eeᵀ ∘ (ssᵀ ∘ cosh K + ccᵀ ∘ sinh K)
        E[cos sinᵀ] = eeᵀ ∘ (csᵀ ∘ cosh K − scᵀ ∘ sinh K)
    """
    assert measure.input_variance is not None
    damping = _log_damping(frequencies, measure)
    assert damping is not None
    phase = measure.mean @ frequencies.mT
    c, s = phase.cos(), phase.sin()
    covariance = full_covariance(measure.mean, measure.input_variance)
    each = frequencies[..., None, :, :]  # the same for every row
    k = each @ covariance @ each.mT
    # eeᵀ and the exponentials of K in one exponent: neither alone need be finite.
    both = damping[..., :, None] + damping[..., None, :]
    rising, falling = (both + k).exp(), (both - k).exp()
    even, odd = 0.5 * (rising + falling), 0.5 * (rising - falling)
    m = frequencies.shape[-2]
    form = form[..., None, :, :]
    cc, ss, cs = form[..., :m, :m], form[..., m:, m:], form[..., :m, m:]

    def product(left: Tensor, matrix: Tensor, right: Tensor) -> Tensor:
        return torch.einsum("...i,...ij,...j->...", left, matrix, right)

    cosines = product(c, even * cc + odd * ss, c)
    sines = product(s, even * ss + odd * cc, s)
    crossed = product(c, even * cs, s) - product(s, odd * cs, c)
    return (cosines + sines + 2 * crossed) / m


def _log_damping(
    frequencies: Float[Tensor, "*B M D"], measure: Measure
) -> Float[Tensor, "*B N M"] | None:
    """−½ diag(ΩΣΩᵀ), or None for points."""
    parts = [
        -0.5 * _phase_variance(frequencies, measure.mean, variance)
        for variance in (measure.variance, measure.input_variance)
        if variance is not None
    ]
    return sum(parts[1:], parts[0]) if parts else None


def _phase_variance(
    frequencies: Float[Tensor, "*B M D"], mean: Float[Tensor, "*N D"], variance: Variance
) -> Float[Tensor, "*B N M"]:
    """diag(ΩΣΩᵀ), the variance of Ωx: one product of Σ, its entries in a line, with all ωωᵀ."""
    if variance.ndim == mean.ndim:
        return variance @ frequencies.square().mT
    products = frequencies[..., :, None] * frequencies[..., None, :]  # ωωᵀ
    return variance.flatten(-2) @ products.flatten(-2).mT
