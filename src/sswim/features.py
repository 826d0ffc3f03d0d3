"""Fourier features of points, and expected Fourier features of Gaussian measures."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

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
    phase = product(measure.mean, frequencies.mT)  # Ωm
    features: Tensor = _Waves.apply(phase, _log_damping(frequencies, measure))
    return features


def product(
    rows: Float[Tensor, "*#B N I"], matrix: Float[Tensor, "*B I J"]
) -> Float[Tensor, "*B N J"]:
    """XA of many rows X."""
    result: Tensor = _Product.apply(rows, matrix)
    return result


class _Product(torch.autograd.Function):
    """XA with X̄ = ȲAᵀ and Ā = XᵀȲ, each the way round in which it is wider than the other.

    Of two products that are each other's transpose, a CPU is slow in the one of few columns.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: Tensor) -> Tensor:
        ctx.save_for_backward(rows, matrix)
        n_before, n_after = matrix.shape[-2:]
        return (matrix.mT @ rows.mT).mT if n_after < n_before else rows @ matrix

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        rows, matrix = ctx.saved_tensors
        narrows = matrix.shape[-1] < matrix.shape[-2]
        of_rows = of_matrix = None
        if ctx.needs_input_grad[0]:
            of_rows = gradient @ matrix.mT if narrows else (matrix @ gradient.mT).mT
            of_rows = of_rows.sum_to_size(rows.shape)
        if ctx.needs_input_grad[1]:
            of_matrix = (gradient.mT @ rows).mT if narrows else rows.mT @ gradient
            of_matrix = of_matrix.sum_to_size(matrix.shape)
        return of_rows, of_matrix


class _Waves(torch.autograd.Function):
    """[c, s] = M^{-1/2} e^d ⊙ [cos p, sin p] of phases p and log dampings d.

    The features are their own derivatives, so the backward takes no trigonometry:

        p̄ = c ⊙ s̄ − s ⊙ c̄,    d̄ = c ⊙ c̄ + s ⊙ s̄
    """

    @staticmethod
    def forward(ctx: Any, phase: Tensor, log_damping: Tensor | None) -> Tensor:
        *rows, m = phase.shape
        features = phase.new_empty(*rows, 2 * m)
        cosine, sine = features.chunk(2, dim=-1)
        torch.cos(phase, out=cosine)
        torch.sin(phase, out=sine)
        if log_damping is None:
            features *= m**-0.5
        else:
            scale = log_damping.exp().mul_(m**-0.5)
            cosine *= scale
            sine *= scale
        ctx.save_for_backward(features)
        return features

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        [features] = ctx.saved_tensors
        cosine, sine = features.chunk(2, dim=-1)
        of_cosine, of_sine = gradient.chunk(2, dim=-1)
        phase = log_damping = None
        if ctx.needs_input_grad[0]:
            phase = (cosine * of_sine).addcmul_(sine, of_cosine, value=-1)
        if ctx.needs_input_grad[1]:
            log_damping = (cosine * of_cosine).addcmul_(sine, of_sine)
        return phase, log_damping


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

    def form_of(left: Tensor, matrix: Tensor, right: Tensor) -> Tensor:
        return torch.einsum("...i,...ij,...j->...", left, matrix, right)

    cosines = form_of(c, even * cc + odd * ss, c)
    sines = form_of(s, even * ss + odd * cc, s)
    crossed = form_of(c, even * cs, s) - form_of(s, odd * cs, c)
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
        return product(variance, frequencies.square().mT)
    products = frequencies[..., :, None] * frequencies[..., None, :]  # ωωᵀ
    return product(variance.flatten(-2), products.flatten(-2).mT)
