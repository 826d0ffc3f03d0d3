"""Warps: measures of g(x) ⊙ x + h(x), with g and h conditioned on learnable pseudo-data.

g = 1 + δ. Both δ and h are zero-mean multi-output sparse spectrum GPs whose outputs share the
features, so a warp falls back to the identity away from its pseudo-points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.factorisation import cholesky
from sswim.features import expected_features, feature_slopes, product
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
    """s·C⁻¹Y"""
    signal: Float[Tensor, "*B"]
    """s²"""


@dataclass(frozen=True)
class ProcessMoments(Record):
    """A process at a measure."""

    mean: Float[Tensor, "*B N Q"]
    variance: Float[Tensor, "*B N 1"]
    """The outputs share their features, hence one variance for all of them."""
    slopes: Float[Tensor, "*B N Q D"] | None = None
    """∂mean/∂m, where the raw input is uncertain."""


def process_moments(factors: ProcessFactors, measure: Measure) -> ProcessMoments:
    """Posterior mean and latent variance of a process, from one product φᵀB.

    mean (φᵀB)(s·C⁻¹Y),    variance s²(‖φ‖² − ‖φᵀB‖²)
    """
    features = expected_features(factors.frequencies, measure)  # φ
    projected = product(features, factors.projection)  # φᵀB
    # ‖φ‖² is one for a point and less for an uncertain input.
    point = measure.variance is None and measure.input_variance is None
    norm = 1.0 if point else features.square().sum(-1, keepdim=True)
    explained = projected.square().sum(-1, keepdim=True)
    variance = factors.signal[..., None, None] * (norm - explained).clamp(min=0)
    slopes = None
    if measure.input_variance is not None:
        weights = factors.projection @ factors.coefficients
        slopes = feature_slopes(factors.frequencies, features, weights)
    return ProcessMoments(product(projected, factors.coefficients), variance, slopes)


class PseudoProcess(nn.Module):
    """A zero-mean sparse spectrum GP conditioned on K learnable pseudo-points.

    The dual form: with Φ_K ∈ R^{K×F} the features of the pseudo-inputs and
    CCᵀ = s²Φ_KΦ_Kᵀ + σ²I, put B = s·Φ_KᵀC⁻ᵀ. It costs N·F·K where the weight-space form costs N·F².

    The hierarchical prior on the pseudo-targets Y is their own log evidence. It comes in two
    forms. ``"evidence"`` learns Y and adds −log N(Y; 0, CCᵀ): literal, but unbounded, as Y and σ²
    can shrink together. ``"whitened"`` learns ε with Y = Cε and adds ½‖ε‖²: bounded.
    """

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int,
        n_frequencies: int,
        n_pseudo: int,
        prior: PseudoPrior,
        batch: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        self.prior = prior
        self.spectrum = Spectrum(n_frequencies, n_inputs, batch)
        self.log_signal = nn.Parameter(torch.full(batch, math.log(0.1), dtype=torch.float64))
        self.log_noise = nn.Parameter(torch.full(batch, math.log(0.01), dtype=torch.float64))
        self.pseudo_inputs = nn.Parameter(
            torch.zeros(*batch, n_pseudo, n_inputs, dtype=torch.float64)
        )
        # Y (a deviation from the prior mean), or ε if whitened; zero is the identity warp.
        self.pseudo_targets = nn.Parameter(
            torch.zeros(*batch, n_pseudo, n_outputs, dtype=torch.float64)
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
        signal = self.log_signal.exp()[..., None, None]  # s²
        noise = self.log_noise.exp()[..., None, None]  # σ²
        frequencies = self.spectrum.frequencies()
        features = expected_features(frequencies, Measure(self.pseudo_inputs))  # Φ_K
        identity = torch.eye(features.shape[-2], dtype=features.dtype, device=features.device)
        factor = cholesky(  # C
            signal * features @ features.mT + noise * identity,
            name="covariance s²ΦΦᵀ + σ²I of a warp's pseudo-points",
        )
        n_pseudo, n_outputs = self.pseudo_targets.shape[-2:]
        log_normaliser: Tensor | float = 0.5 * n_pseudo * n_outputs * math.log(2 * math.pi)
        if self.prior == "whitened":
            whitened = self.pseudo_targets  # ε = C⁻¹Y
        else:
            whitened = torch.linalg.solve_triangular(factor, self.pseudo_targets, upper=False)
            log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)  # ½ log|CCᵀ|
            log_normaliser = log_normaliser + n_outputs * log_root
        negative_log_prior = 0.5 * whitened.square().sum((-2, -1)) + log_normaliser
        scale = signal.sqrt()  # s
        projection = scale * torch.linalg.solve_triangular(factor, features, upper=False).mT
        return (
            ProcessFactors(frequencies, projection, scale * whitened, signal[..., 0, 0]),
            negative_log_prior,
        )


@dataclass(frozen=True)
class WarpFactors(Record):
    """All that rows need of a warp."""

    multiplicative: ProcessFactors
    """δ = g − 1"""
    additive: ProcessFactors
    """h"""


def warp(factors: WarpFactors, measure: Measure) -> Measure:
    """The measure of g(x) ⊙ x + h(x) for x ~ N(m, diag v), by its first two moments.

        m' = ĝ ⊙ m + ĥ,    v' = m²·v_g + v_h + v·(v_g + ĝ²)

    Exact in the moments for a point (v = 0), where the warped input is Gaussian; for the output
    of another warp under independence of x, g and h, with ĝ, ĥ, v_g, v_h from expected features.

    Where the raw input is uncertain with covariance P, g(x) and h(x) move with x, and independence
    would be wrong however small P is. With the expected slope J = E ∂(g(x) ⊙ x + h(x))/∂x instead,

        m' = ĝ ⊙ m + ĥ + diag(P (∂ĝ/∂m)ᵀ),    P' = JPJᵀ,    v' = … + diag(P)·v_g.
    """
    g = process_moments(factors.multiplicative, measure)
    h = process_moments(factors.additive, measure)
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


class WarpLayer(nn.Module):
    """The parameters of one warp: the pseudo-processes δ = g − 1 and h."""

    def __init__(
        self,
        n_inputs: int,
        n_frequencies: int,
        n_pseudo: int,
        prior: PseudoPrior,
        batch: tuple[int, ...] = (),
    ) -> None:
        super().__init__()
        sizes = (n_inputs, n_inputs, n_frequencies, n_pseudo)
        self.multiplicative = PseudoProcess(*sizes, prior, batch)
        self.additive = PseudoProcess(*sizes, prior, batch)

    def condition(self) -> tuple[WarpFactors, Float64[Tensor, "*B"]]:
        """The factors that rows need, and the negative log prior of the pseudo-targets."""
        multiplicative, multiplicative_prior = self.multiplicative.condition()
        additive, additive_prior = self.additive.condition()
        return WarpFactors(multiplicative, additive), multiplicative_prior + additive_prior
