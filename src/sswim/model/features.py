"""Fourier features of points, and expected Fourier features of Gaussian measures."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from sswim.rows.measure import Measure, full_covariance


def expected_features(
    frequencies: Float[Tensor, "*B M D"], measure: Measure
) -> Float[Tensor, "*B N F"]:
    """Expected features E φ(x) of x ~ N(m, Σ), F = 2M of them.

        E φ = M^{-1/2} exp(−½ diag(ΩΣΩᵀ)) ⊙ [cos Ωm, sin Ωm]

    For a point the exponential is one and ‖φ(x)‖² = 1, so that k(x, x) = 1. (The paper prints
    √(2/M), with which k(x, x) = 2.)

    Here and below a measure may be shared by all members, or have one of its rows for each.
    """
    features, _ = _Waves.apply(measure.mean, frequencies, *_spread(frequencies, measure), False)
    return features


def features_and_norm(
    frequencies: Float[Tensor, "*B M D"], measure: Measure
) -> tuple[Float[Tensor, "*B N F"], Float[Tensor, "*B N 1"] | None]:
    """The expected features, and ‖E φ‖²; None for points, of which it is one."""
    features, norm = _Waves.apply(measure.mean, frequencies, *_spread(frequencies, measure), True)
    return features, norm


def multiply(rows: Tensor, matrix: Tensor) -> Tensor:
    """XA, the way round in which it is wide: of two that are transposes a CPU is slow in one."""
    n_before, n_after = matrix.shape[-2:]
    return (matrix.mT @ rows.mT).mT if n_after < n_before else rows @ matrix


def transposed_product(left: Tensor, right: Tensor) -> Tensor:
    """XᵀY of many rows, likewise."""
    narrows = right.shape[-1] < left.shape[-1]
    return (right.mT @ left).mT if narrows else left.mT @ right


class _Waves(torch.autograd.Function):
    """[c, s] = M^{-1/2} e^d ⊙ [cos p, sin p] of phases p = mΩᵀ and log dampings d = −½vQᵀ.

    The features are their own derivatives, so the backward takes no trigonometry:

        p̄ = c ⊙ s̄ − s ⊙ c̄,    d̄ = c ⊙ c̄ + s ⊙ s̄ + 2n̄·(c² + s²)

    with n̄ that of the norm n = Σ c² + s², and from there back through the two products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        frequencies: Tensor,
        variance: Tensor | None,
        forms: Tensor | None,
        normed: bool,
    ) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        kernels = kernels_for(mean)
        waves = _waves if kernels is None else kernels.waves
        features = waves(mean, frequencies, variance, forms)
        ctx.save_for_backward(features, mean, frequencies, variance, forms)
        norm = None
        if normed and variance is not None:
            norm = torch.linalg.vector_norm(features, dim=-1, keepdim=True).square_()
        return features, norm

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Tensor | None, of_norm: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        features, mean, frequencies, variance, forms = ctx.saved_tensors
        if gradient is None:
            gradient = torch.zeros_like(features)
        kernels = kernels_for(features)
        waves_backward = _waves_backward if kernels is None else kernels.waves_backward
        damped = ctx.needs_input_grad[2] or ctx.needs_input_grad[3]
        phase, exponent = waves_backward(features, gradient, of_norm, damped)
        of_mean = of_frequencies = of_variance = of_forms = None
        if ctx.needs_input_grad[0]:
            of_mean = multiply(phase, frequencies).sum_to_size(mean.shape)
        if ctx.needs_input_grad[1]:
            of_frequencies = transposed_product(phase, mean).sum_to_size(frequencies.shape)
        if exponent is not None and ctx.needs_input_grad[2]:
            of_variance = multiply(exponent, forms).sum_to_size(variance.shape)
        if exponent is not None and ctx.needs_input_grad[3]:
            of_forms = transposed_product(exponent, variance).sum_to_size(forms.shape)
        return of_mean, of_frequencies, of_variance, of_forms, None


def _waves(
    mean: Tensor, frequencies: Tensor, variance: Tensor | None, forms: Tensor | None
) -> Tensor:
    """M^{-1/2} e^{−½vQᵀ} ⊙ [cos mΩᵀ, sin mΩᵀ]"""
    phase = multiply(mean, frequencies.mT)
    *rows, m = phase.shape
    features = phase.new_empty(*rows, 2 * m)
    cosine, sine = features.chunk(2, dim=-1)
    torch.cos(phase, out=cosine)
    torch.sin(phase, out=sine)
    if variance is None or forms is None:
        return features.mul_(m**-0.5)
    scale = multiply(variance, forms.mT).mul_(-0.5).exp_().mul_(m**-0.5)
    cosine *= scale
    sine *= scale
    return features


def _waves_backward(
    features: Tensor, gradient: Tensor, of_norm: Tensor | None, damped: bool
) -> tuple[Tensor, Tensor | None]:
    """p̄, and −½d̄ where damped."""
    cosine, sine = features.chunk(2, dim=-1)
    of_cosine, of_sine = gradient.chunk(2, dim=-1)
    phase = (cosine * of_sine).addcmul_(sine, of_cosine, value=-1)
    if not damped:
        return phase, None
    exponent = (cosine * of_cosine).addcmul_(sine, of_sine)
    if of_norm is not None:
        exponent.addcmul_(2 * of_norm, cosine.square().addcmul_(sine, sine))
    return phase, exponent.mul_(-0.5)


def kernels_for(tensor: Tensor) -> ModuleType | None:
    """Those of a GPU, where they can be had."""
    return _gpu_kernels() if tensor.is_cuda else None


@cache
def _gpu_kernels() -> ModuleType | None:
    if find_spec("triton") is None:
        return None
    from sswim.model import triton_features as kernels  # noqa: PLC0415 (it imports what only a GPU has)

    return kernels if kernels.usable() else None


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
    variance, products = _spread(frequencies, measure)
    assert variance is not None
    assert products is not None
    damping = -0.5 * variance @ products.mT
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


def _spread(
    frequencies: Float[Tensor, "*B M D"], measure: Measure
) -> tuple[Float[Tensor, "*N E"] | None, Float[Tensor, "*B M E"] | None]:
    """v and Q with diag(ΩΣΩᵀ) = vQᵀ, or two Nones for points.

    Of a diagonal Σ its diagonal, and Ω²; of any other its entries in a line, and those of all ωωᵀ.
    """
    parts = [each for each in (measure.variance, measure.input_variance) if each is not None]
    if not parts:
        return None, None
    if all(part.ndim == measure.mean.ndim for part in parts):
        return sum(parts[1:], parts[0]), frequencies.square()
    full = [full_covariance(measure.mean, part).flatten(-2) for part in parts]
    products = frequencies[..., :, None] * frequencies[..., None, :]  # ωωᵀ
    return sum(full[1:], full[0]), products.flatten(-2)
