"""Warps: measures of g(x) ⊙ x + h(x), with g and h conditioned on learnable pseudo-data.

g = 1 + δ. Both δ and h are zero-mean multi-output sparse spectrum GPs whose outputs share the
features, so a warp falls back to the identity away from its pseudo-points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sswim.factorisation import cholesky
from sswim.features import (
    expected_features,
    feature_slopes,
    features_and_norm,
    multiply,
    transposed_product,
)
from sswim.measure import Measure, full_covariance
from sswim.record import Record
from sswim.spectral import Spectrum

PseudoPrior = Literal["whitened", "evidence"]


@dataclass(frozen=True)
class ProcessFactors(Record):
    """All that rows need of a process conditioned on its pseudo-data."""

    frequencies: Float[Tensor, "*B M D"]
    """Ω"""
    projection: Float[Tensor, "*B F K"]
    """B"""
    coefficients: Float[Tensor, "*B K Q"]
    """C⁻¹Y"""
    signal: Float[Tensor, "*B G"]
    """s² of every function."""


@dataclass(frozen=True)
class ProcessMoments(Record):
    """The functions of a process at a measure."""

    mean: Float[Tensor, "*B N Q"]
    """Of all their outputs."""
    variance: Float[Tensor, "*B N G"]
    """The outputs of a function share their features, hence one variance for all of them."""
    slopes: Float[Tensor, "*B N Q D"] | None = None
    """∂mean/∂m, where the raw input is uncertain."""


def process_moments(factors: ProcessFactors, measure: Measure) -> ProcessMoments:
    """Posterior mean and latent variance of a process, from one product φᵀB.

    mean (φᵀB)(C⁻¹Y),    variance s²(‖φ‖² − ‖φᵀB‖²)
    """
    features, norm = features_and_norm(factors.frequencies, measure)  # φ, ‖φ‖²
    mean, explained = _Projection.apply(features, factors.projection, factors.coefficients)
    unexplained = ((1.0 if norm is None else norm) - explained).clamp(min=0)
    slopes = None
    if measure.input_variance is not None:
        weights = factors.projection @ factors.coefficients
        slopes = feature_slopes(factors.frequencies, features, weights)
    return ProcessMoments(mean, factors.signal[..., None, :] * unexplained, slopes)


class _Projection(torch.autograd.Function):
    """m = PE and e = ‖P‖² of every row of P = ΦB, with P̄ = m̄Eᵀ + 2ē·P in one tensor."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, projection: Tensor, coefficients: Tensor
    ) -> tuple[Tensor, Tensor]:
        projected = multiply(features, projection)
        ctx.save_for_backward(features, projection, coefficients, projected)
        explained = torch.linalg.vector_norm(projected, dim=-1, keepdim=True).square_()
        return multiply(projected, coefficients), explained

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, of_mean: Tensor, of_explained: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        features, projection, coefficients, projected = ctx.saved_tensors
        of_projected = multiply(of_mean, coefficients.mT).addcmul_(projected, 2 * of_explained)
        of_features = of_projection = of_coefficients = None
        if ctx.needs_input_grad[0]:
            of_features = multiply(of_projected, projection.mT)
        if ctx.needs_input_grad[1]:
            of_projection = transposed_product(features, of_projected)
        if ctx.needs_input_grad[2]:
            of_coefficients = transposed_product(projected, of_mean)
        return of_features, of_projection, of_coefficients


class PseudoProcess(nn.Module):
    """G zero-mean functions, sparse spectrum GPs conditioned on the same K learnable pseudo-points.

    The dual form: with Φ_K ∈ R^{K×F} the features of the pseudo-inputs and
    CCᵀ = Φ_KΦ_Kᵀ + λI, put B = Φ_KᵀC⁻ᵀ. It costs N·F·K where the weight-space form costs N·F².
    The pseudo-targets of a function with prior variance s² have the covariance s²CCᵀ, and so the
    noise σ² = λs²: B is the same for all functions.

    The hierarchical prior on the pseudo-targets Y is their own log evidence. It comes in two
    forms. ``"evidence"`` learns Y and adds −log N(Y; 0, s²CCᵀ): literal, but unbounded, as Y and σ²
    can shrink together. ``"whitened"`` learns ε with Y = sCε and adds ½‖ε‖²: bounded.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        n_functions: int,
        n_frequencies: int,
        n_pseudo: int,
        prior: PseudoPrior,
        batch: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.prior = prior
        self.spectrum = Spectrum(n_frequencies, n_inputs, batch)
        self.log_signal = nn.Parameter(
            torch.full((*batch, n_functions), math.log(0.1), dtype=torch.float64)
        )
        # σ² of the first function.
        self.log_noise = nn.Parameter(torch.full(batch, math.log(0.01), dtype=torch.float64))
        self.pseudo_inputs = nn.Parameter(
            torch.zeros(*batch, n_pseudo, n_inputs, dtype=torch.float64)
        )
        # Y (a deviation from the prior mean), or ε if whitened; zero is the identity warp.
        self.pseudo_targets = nn.Parameter(
            torch.zeros(*batch, n_pseudo, n_functions * n_outputs, dtype=torch.float64)
        )

    @torch.no_grad()
    def start(
        self,
        sample: Float64[Tensor, "S D"],
        spread: Float64[Tensor, " D"],
        generator: torch.Generator,
    ) -> None:
        """Place the pseudo-inputs near rows of the sample, of one member."""
        n_pseudo, n_inputs = self.pseudo_inputs.shape
        rows = torch.randperm(max(len(sample), n_pseudo), generator=generator)[:n_pseudo]
        # A little off the rows, because a sample may hold the same row twice.
        offset = 0.1 * torch.randn(n_pseudo, n_inputs, generator=generator, dtype=torch.float64)
        self.pseudo_inputs.copy_(sample[rows % len(sample)] + offset * spread)

    def condition(self) -> tuple[ProcessFactors, Float64[Tensor, "*B"]]:
        """The factors that rows need, and the negative log prior of the pseudo-targets."""
        frequencies = self.spectrum.frequencies()
        features = expected_features(frequencies, Measure(self.pseudo_inputs))  # Φ_K
        ridge = (self.log_noise - self.log_signal[..., 0]).exp()  # λ
        identity = torch.eye(features.shape[-2], dtype=features.dtype, device=features.device)
        factor = cholesky(  # C
            features @ features.mT + ridge[..., None, None] * identity,
            name="matrix ΦΦᵀ + λI of a warp's pseudo-points",
        )
        n_pseudo, n_targets = self.pseudo_targets.shape[-2:]
        n_outputs = n_targets // self.log_signal.shape[-1]
        log_normaliser: Tensor | float = 0.5 * n_pseudo * n_targets * math.log(2 * math.pi)
        log_scale = 0.5 * self.log_signal  # log s
        scale = log_scale.exp().repeat_interleave(n_outputs, dim=-1)[..., None, :]
        if self.prior == "whitened":
            whitened = self.pseudo_targets  # ε = C⁻¹Y/s
            coefficients = scale * whitened
        else:
            coefficients = torch.linalg.solve_triangular(factor, self.pseudo_targets, upper=False)
            whitened = coefficients / scale
            log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # ½ log|CCᵀ|
            log_normaliser = log_normaliser + n_targets * log_root
            log_normaliser = log_normaliser + n_pseudo * n_outputs * log_scale.sum(-1)
        negative_log_prior = 0.5 * whitened.square().sum((-2, -1)) + log_normaliser
        projection = torch.linalg.solve_triangular(factor, features, upper=False).mT
        return (
            ProcessFactors(frequencies, projection, coefficients, self.log_signal.exp()),
            negative_log_prior,
        )


@dataclass(frozen=True)
class WarpFactors(Record):
    """All that rows need of a warp."""

    processes: tuple[ProcessFactors, ...]
    """δ = g − 1 and h: of a process each, or the two functions of one."""


def warp(factors: WarpFactors, measure: Measure) -> Measure:
    """The measure of g(x) ⊙ x + h(x) for x ~ N(m, diag v), by its first two moments.

        m' = ĝ ⊙ m + ĥ,    v' = m²·v_g + v_h + v·(v_g + ĝ²)

    Exact in the moments for a point (v = 0), where the warped input is Gaussian; for the output
    of another warp under independence of x, g and h, with ĝ, ĥ, v_g, v_h from expected features.

    Where the raw input is uncertain with covariance P, g(x) and h(x) move with x, and independence
    would be wrong however small P is. With the expected slope J = E ∂(g(x) ⊙ x + h(x))/∂x instead,

        m' = ĝ ⊙ m + ĥ + diag(P (∂ĝ/∂m)ᵀ),    P' = JPJᵀ,    v' = … + diag(P)·v_g.
    """
    g, h = _functions([process_moments(process, measure) for process in factors.processes])
    scale = 1 + g.mean  # ĝ
    mean = scale * measure.mean + h.mean
    variance = measure.mean.square() * g.variance + h.variance
    if measure.variance is not None:
        variance = variance + measure.variance * (g.variance + scale.square())
    if measure.input_variance is None:
        return Measure(mean, variance)
    assert g.slopes is not None
    assert h.slopes is not None
    covariance = full_covariance(measure.mean, measure.input_variance)  # P
    mean = mean + (g.slopes * covariance).sum(-1)
    variance = variance + covariance.diagonal(dim1=-2, dim2=-1) * g.variance
    slopes = scale.diag_embed() + measure.mean[..., None] * g.slopes + h.slopes  # J
    return Measure(mean, variance, slopes @ covariance @ slopes.mT)


def _functions(moments: list[ProcessMoments]) -> tuple[ProcessMoments, ProcessMoments]:
    """δ and h, of two processes or of one."""
    if len(moments) == 2:
        return moments[0], moments[1]
    [both] = moments
    means, variances = both.mean.chunk(2, dim=-1), both.variance.chunk(2, dim=-1)
    slopes = (None, None) if both.slopes is None else both.slopes.chunk(2, dim=-2)
    g, h = (ProcessMoments(*each) for each in zip(means, variances, slopes, strict=True))
    return g, h


class WarpLayer(nn.Module):
    """The parameters of one warp: of δ = g − 1 and h, each a process or both functions of one."""

    def __init__(
        self,
        n_inputs: int,
        n_frequencies: int,
        n_pseudo: int,
        prior: PseudoPrior,
        joint: bool,
        batch: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        n_processes = 1 if joint else 2
        sizes = (n_inputs, n_inputs, 2 // n_processes, n_frequencies, n_pseudo)
        self.parts = nn.ModuleList(PseudoProcess(*sizes, prior, batch) for _ in range(n_processes))

    def processes(self) -> list[PseudoProcess]:
        """Those of δ and h, or that of both."""
        return [cast(PseudoProcess, process) for process in self.parts]

    def condition(self) -> tuple[WarpFactors, Float64[Tensor, "*B"]]:
        """The factors that rows need, and the negative log prior of the pseudo-targets."""
        factors, priors = zip(*(process.condition() for process in self.processes()), strict=True)
        return WarpFactors(factors), sum(priors[1:], priors[0])
