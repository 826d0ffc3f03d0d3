"""Frequencies drawn from spectral densities, and Fourier features of points and measures."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal

import torch
from jaxtyping import Float, Float64
from scipy import special
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sswim.base.validation import require_choice
from sswim.rows.rows import Measure, full_covariance

Kernel = Literal["rbf", "matern12", "matern32", "matern52"]

DEGREES_OF_FREEDOM: dict[Kernel, int] = {"matern12": 1, "matern32": 3, "matern52": 5}
"""2ν, the degrees of freedom of a Matérn kernel's spectral density, a multivariate Student-t."""

_OPEN_INTERVAL = (2.0**-32, 1 - 2.0**-32)
"""Bounds of uniform random numbers: quantiles at 0 and 1 may be infinite."""


def draw_frequencies(
    kernel: Kernel, n_frequencies: int, n_inputs: int, generator: torch.Generator
) -> Float64[Tensor, "M D"]:
    """Draw frequencies from a kernel's spectral density at unit length-scale.

    The spectral density of the RBF kernel is N(0, I). The density of Matérn-ν is the multivariate
    Student-t with 2ν degrees of freedom, ``ω = z·√(2ν/χ²)`` with *one* ``χ² ~ χ²_{2ν}`` for all
    coordinates of a frequency: the isotropic kernel. (One χ² per coordinate would give a product of
    1-D kernels.)

    Frequencies have orthogonal directions in blocks of D, and radii stratified over all of them:
    they approximate the kernel better than independent ones. The factor Q of a Gaussian matrix QR
    is uniform over the orthogonal group if the signs are chosen such that the diagonal of R is
    positive.

    Args:
        kernel: The stationary kernel.
        n_frequencies: M, the number of frequencies.
        n_inputs: D, the number of inputs.
        generator: A generator on the CPU, so that the draw is the same on every device.
    """
    require_choice("kernel", kernel, Kernel)
    if n_frequencies < 1 or n_inputs < 1:
        raise ValueError(
            "A draw needs at least one frequency and one input. "
            f"Got n_frequencies={n_frequencies}, n_inputs={n_inputs}."
        )
    blocks = math.ceil(n_frequencies / n_inputs)
    normal = torch.randn(blocks, n_inputs, n_inputs, generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(normal)
    signed = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    directions = signed.mT.reshape(-1, n_inputs)[:n_frequencies]
    strata = torch.randperm(n_frequencies, generator=generator)
    offset = torch.rand(n_frequencies, generator=generator, dtype=torch.float64)
    return _radii(kernel, (strata + offset) / n_frequencies, n_inputs)[:, None] * directions


def draw_independent_frequencies(
    kernel: Kernel, n_frequencies: int, n_inputs: int, generator: torch.Generator
) -> Float64[Tensor, "M D"]:
    """Draw independent frequencies from the spectral density of :func:`draw_frequencies`."""
    normal = torch.randn(n_frequencies, n_inputs, generator=generator, dtype=torch.float64)
    uniform = torch.rand(n_frequencies, generator=generator, dtype=torch.float64)
    return _radii(kernel, uniform, n_inputs)[:, None] * nn.functional.normalize(normal, dim=-1)


def _radii(kernel: Kernel, uniform: Float64[Tensor, " M"], d: int) -> Float64[Tensor, " M"]:
    """Return quantiles of ‖ω‖, which has the law χ_D for the RBF kernel, else √(D·F(D, 2ν)).

    (If ‖z‖² ~ χ²_D and χ² ~ χ²_{2ν}, then F = (‖z‖²/D)/(χ²/2ν) is F-distributed, and D·F/(D·F + 2ν)
    is Beta(D/2, ν).)
    """
    uniform = uniform.clamp(*_OPEN_INTERVAL)
    if kernel == "rbf":
        return torch.from_numpy(special.gammaincinv(d / 2, uniform.numpy())).mul(2).sqrt()
    degrees = DEGREES_OF_FREEDOM[kernel]
    beta = special.betaincinv(d / 2, degrees / 2, uniform.numpy())
    complement = special.betaincinv(degrees / 2, d / 2, (1 - uniform).numpy())  # 1 − beta
    return torch.from_numpy(degrees * beta / complement).sqrt()


class Spectrum(nn.Module):
    """Frequencies: a fixed draw, divided by one learnable length-scale per input."""

    unit_frequencies: Tensor

    def __init__(self, n_frequencies: int, n_inputs: int, batch: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.register_buffer(
            "unit_frequencies", torch.zeros(*batch, n_frequencies, n_inputs, dtype=torch.float64)
        )
        self.log_length_scales = nn.Parameter(torch.zeros(*batch, n_inputs, dtype=torch.float64))

    def frequencies(self) -> Float[Tensor, "*B M D"]:
        """Return Ω, the unit frequencies divided by the length-scales."""
        return self.unit_frequencies * (-self.log_length_scales).exp()[..., None, :]

    def length_scales(self) -> Float64[Tensor, "*B D"]:
        """Return ℓ, the length-scales."""
        return self.log_length_scales.exp()

    @torch.no_grad()
    def start(
        self,
        kernel: Kernel,
        length_scales: Float64[Tensor, " D"],
        generator: torch.Generator,
    ) -> None:
        """Draw the frequencies and set the length-scales of a single member."""
        n_frequencies, n_inputs = self.unit_frequencies.shape
        if n_frequencies:
            self.unit_frequencies.copy_(
                draw_frequencies(kernel, n_frequencies, n_inputs, generator)
            )
        self.log_length_scales.copy_(length_scales.log())


def expected_features(
    frequencies: Float[Tensor, "*B M D"], measure: Measure
) -> Float[Tensor, "*B N F"]:
    """Return the F = 2M expected features E φ(x) of x ~ N(m, Σ).

        E φ = M^{-1/2} exp(−½ diag(ΩΣΩᵀ)) ⊙ [cos Ωm, sin Ωm]

    For a point the exponential is one and ‖φ(x)‖² = 1, so that k(x, x) = 1. (The paper prints
    √(2/M), with which k(x, x) = 2.)

    Here and below, members may share the rows of a measure, or each have rows of its own.

    Args:
        frequencies: Ω, the frequencies divided by the length-scales.
        measure: m and Σ of every row.
    """
    terms = _covariance_terms(frequencies, measure)
    features, _ = _FourierFeatures.apply(measure.mean, frequencies, *terms, False)
    return features


def features_and_norm(
    frequencies: Float[Tensor, "*B M D"], measure: Measure
) -> tuple[Float[Tensor, "*B N F"], Float[Tensor, "*B N 1"] | None]:
    """Return the expected features and ‖E φ‖²; None in its place for points, where it is one."""
    terms = _covariance_terms(frequencies, measure)
    features, norm = _FourierFeatures.apply(measure.mean, frequencies, *terms, True)
    return features, norm


def multiply(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return XA, computed as (AᵀXᵀ)ᵀ where A has fewer columns than rows: faster on a CPU."""
    n_before, n_after = matrix.shape[-2:]
    return (matrix.mT @ rows.mT).mT if n_after < n_before else rows @ matrix


def transposed_product(left: Tensor, right: Tensor) -> Tensor:
    """Return XᵀY, computed as (YᵀX)ᵀ where Y has fewer columns than X: faster on a CPU."""
    narrows = right.shape[-1] < left.shape[-1]
    return (right.mT @ left).mT if narrows else left.mT @ right


class _FourierFeatures(torch.autograd.Function):
    """[c, s] = M^{-1/2} e^d ⊙ [cos p, sin p] with phases p = mΩᵀ and log dampings d = −½vQᵀ.

    Derivatives of the features are made of the features themselves, so the backward pass needs no
    trigonometry. With a bar for the gradient of the objective, and the norm n = Σ c² + s²:

        p̄ = c ⊙ s̄ − s ⊙ c̄,    d̄ = c ⊙ c̄ + s ⊙ s̄ + 2n̄·(c² + s²)

    The two products mΩᵀ and vQᵀ are then differentiated as usual.
    """

    @staticmethod
    def forward(
        ctx: Any,
        mean: Tensor,
        frequencies: Tensor,
        variance: Tensor | None,
        products: Tensor | None,
        with_norm: bool,
    ) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        kernels = triton_kernels(mean.is_cuda)
        fourier_features = _fourier_features if kernels is None else kernels.fourier_features
        features = fourier_features(mean, frequencies, variance, products)
        ctx.save_for_backward(features, mean, frequencies, variance, products)
        norm = None
        if with_norm and variance is not None:
            norm = torch.linalg.vector_norm(features, dim=-1, keepdim=True).square_()
        return features, norm

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Tensor | None, norm_gradient: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        features, mean, frequencies, variance, products = ctx.saved_tensors
        if gradient is None:
            gradient = torch.zeros_like(features)
        kernels = triton_kernels(features.is_cuda)
        gradients = (
            _fourier_features_backward if kernels is None else kernels.fourier_features_backward
        )
        damped = ctx.needs_input_grad[2] or ctx.needs_input_grad[3]
        phase_gradient, exponent_gradient = gradients(features, gradient, norm_gradient, damped)
        of_mean = of_frequencies = of_variance = of_products = None
        if ctx.needs_input_grad[0]:
            of_mean = multiply(phase_gradient, frequencies).sum_to_size(mean.shape)
        if ctx.needs_input_grad[1]:
            of_frequencies = transposed_product(phase_gradient, mean)
            of_frequencies = of_frequencies.sum_to_size(frequencies.shape)
        if exponent_gradient is not None and ctx.needs_input_grad[2]:
            of_variance = multiply(exponent_gradient, products).sum_to_size(variance.shape)
        if exponent_gradient is not None and ctx.needs_input_grad[3]:
            of_products = transposed_product(exponent_gradient, variance)
            of_products = of_products.sum_to_size(products.shape)
        return of_mean, of_frequencies, of_variance, of_products, None


def _fourier_features(
    mean: Tensor, frequencies: Tensor, variance: Tensor | None, products: Tensor | None
) -> Tensor:
    """Return M^{-1/2} e^{−½vQᵀ} ⊙ [cos mΩᵀ, sin mΩᵀ]."""
    phase = multiply(mean, frequencies.mT)
    *rows, m = phase.shape
    features = phase.new_empty(*rows, 2 * m)
    cosine, sine = features.chunk(2, dim=-1)
    torch.cos(phase, out=cosine)
    torch.sin(phase, out=sine)
    if variance is None or products is None:
        return features.mul_(m**-0.5)
    scale = multiply(variance, products.mT).mul_(-0.5).exp_().mul_(m**-0.5)
    cosine *= scale
    sine *= scale
    return features


def _fourier_features_backward(
    features: Tensor, gradient: Tensor, norm_gradient: Tensor | None, damped: bool
) -> tuple[Tensor, Tensor | None]:
    """Return p̄, and −½d̄ for damped features."""
    cosine, sine = features.chunk(2, dim=-1)
    of_cosine, of_sine = gradient.chunk(2, dim=-1)  # c̄, s̄
    phase_gradient = (cosine * of_sine).addcmul_(sine, of_cosine, value=-1)
    if not damped:
        return phase_gradient, None
    exponent_gradient = (cosine * of_cosine).addcmul_(sine, of_sine)
    if norm_gradient is not None:
        exponent_gradient.addcmul_(2 * norm_gradient, cosine.square().addcmul_(sine, sine))
    return phase_gradient, exponent_gradient.mul_(-0.5)


@cache
def triton_kernels(on_gpu: bool) -> ModuleType | None:
    """Return the module of Triton kernels, for tensors on a GPU if they can be compiled."""
    if not on_gpu or find_spec("triton") is None:
        return None
    from sswim.kernels import triton_features as kernels  # noqa: PLC0415 (imports Triton)

    return kernels if kernels.usable() else None


def feature_slopes(
    frequencies: Float[Tensor, "*B M D"],
    features: Float[Tensor, "*B N F"],
    weights: Float[Tensor, "*B F Q"],
) -> Float[Tensor, "*B N Q D"]:
    """Return the slopes ∂(Wᵀ E φ)/∂m of weighted sums of expected features.

    They follow from the features themselves, as the derivative of a cosine is a sine.

    Args:
        frequencies: Ω.
        features: E φ of every row.
        weights: W, one column for every weighted sum.
    """
    cosine, sine = features.chunk(2, dim=-1)
    derivatives = torch.cat((-sine, cosine), dim=-1)  # ∂φ/∂p
    frequency_of_feature = torch.cat((frequencies, frequencies), dim=-2)
    directions = weights[..., None] * frequency_of_feature[..., None, :]  # (F, Q, D)
    return (derivatives @ directions.flatten(-2)).unflatten(-1, directions.shape[-2:])


def expected_quadratic(
    frequencies: Float[Tensor, "*B M D"], measure: Measure, form: Float[Tensor, "*B F F"]
) -> Float[Tensor, "*B N"]:
    """Return E[φ(x)ᵀQφ(x)] over the raw input's uncertainty, for a symmetric matrix Q.

    With c and s the cosines and sines of Ωm, e the damping of the expected features and
    K = ΩPΩᵀ for the input's covariance P, the second moments have a closed form:

        E[cos cosᵀ] = eeᵀ ∘ (ccᵀ ∘ cosh K + ssᵀ ∘ sinh K)
        E[sin sinᵀ] = eeᵀ ∘ (ssᵀ ∘ cosh K + ccᵀ ∘ sinh K)
        E[cos sinᵀ] = eeᵀ ∘ (csᵀ ∘ cosh K − scᵀ ∘ sinh K)

    Args:
        frequencies: Ω.
        measure: m, the warps' variance and the raw input's covariance P of every row.
        form: Q.
    """
    assert measure.input_variance is not None
    phase = measure.mean @ frequencies.mT
    c, s = phase.cos(), phase.sin()
    covariance = full_covariance(measure.mean, measure.input_variance)  # P
    row_frequencies = frequencies[..., None, :, :]  # the same for every row
    k = row_frequencies @ covariance @ row_frequencies.mT
    # eeᵀ and the exponentials of K have one exponent, which is never positive: each alone may
    # overflow. With the diagonal of the same K it is exact where the two frequencies are one.
    log_damping = -0.5 * k.diagonal(dim1=-2, dim2=-1)  # log e
    variance, products = _covariance_terms(frequencies, replace(measure, input_variance=None))
    if variance is not None and products is not None:
        log_damping = log_damping - 0.5 * variance @ products.mT
    log_damping_pair = log_damping[..., :, None] + log_damping[..., None, :]
    rising, falling = ((log_damping_pair + each).clamp(max=0).exp() for each in (k, -k))
    even, odd = 0.5 * (rising + falling), 0.5 * (rising - falling)  # eeᵀ ∘ cosh K, eeᵀ ∘ sinh K
    m = frequencies.shape[-2]
    form = form[..., None, :, :]
    cc, ss, cs = form[..., :m, :m], form[..., m:, m:], form[..., :m, m:]

    def quadratic(left: Tensor, matrix: Tensor, right: Tensor) -> Tensor:
        return torch.einsum("...i,...ij,...j->...", left, matrix, right)

    cosines = quadratic(c, even * cc + odd * ss, c)
    sines = quadratic(s, even * ss + odd * cc, s)
    crossed = quadratic(c, even * cs, s) - quadratic(s, odd * cs, c)
    return (cosines + sines + 2 * crossed) / m


def _covariance_terms(
    frequencies: Float[Tensor, "*B M D"], measure: Measure
) -> tuple[Float[Tensor, "*N E"] | None, Float[Tensor, "*B M E"] | None]:
    """Return v and Q such that diag(ΩΣΩᵀ) = vQᵀ; two Nones for points.

    If Σ is diagonal, v is its diagonal and Q holds the squared frequencies. Otherwise v holds all
    entries of Σ and Q the products of frequencies ωωᵀ, both flattened.
    """
    parts = [part for part in (measure.variance, measure.input_variance) if part is not None]
    if not parts:
        return None, None
    if all(part.ndim == measure.mean.ndim for part in parts):
        return sum(parts[1:], parts[0]), frequencies.square()
    full = [full_covariance(measure.mean, part).flatten(-2) for part in parts]
    products = frequencies[..., :, None] * frequencies[..., None, :]  # ωωᵀ
    return sum(full[1:], full[0]), products.flatten(-2)
