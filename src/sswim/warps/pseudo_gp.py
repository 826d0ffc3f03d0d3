"""Sparse spectrum GPs conditioned on a few learnable pseudo-points: the functions of a warp.

The pseudo-points are pairs of a pseudo-input and pseudo-targets, together the pseudo-data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from sswim.base.cholesky import cholesky
from sswim.base.record import Record
from sswim.kernels.features import (
    Spectrum,
    expected_features,
    feature_slopes,
    features_and_norm,
    multiply,
    transposed_product,
)
from sswim.rows.rows import Measure

PseudoPrior = Literal["whitened", "evidence"]


@dataclass(frozen=True)
class PseudoGPFactors(Record):
    """The tensors of a GP conditioned on its pseudo-data, in the notation of :class:`PseudoGP`."""

    frequencies: Float[Tensor, "*B M D"]
    """Ω, the frequencies."""
    projection: Float[Tensor, "*B F K"]
    """B, the projection of features onto the pseudo-points."""
    coefficients: Float[Tensor, "*B K Q"]
    """C⁻¹Y, the coefficients of the mean."""
    signal: Float[Tensor, "*B G"]
    """s², the prior variance of every function."""


@dataclass(frozen=True)
class PseudoGPMoments(Record):
    """Means and variances of a GP's functions at the rows of a measure."""

    mean: Float[Tensor, "*B N Q"]
    """Means of all outputs of all functions."""
    variance: Float[Tensor, "*B N G"]
    """Variance of every function; its outputs share their features, and so have one variance."""
    slopes: Float[Tensor, "*B N Q D"] | None = None
    """∂mean/∂m, the slopes of the means; None if the raw inputs are known exactly."""


def pseudo_gp_moments(factors: PseudoGPFactors, measure: Measure) -> PseudoGPMoments:
    """Return the posterior means and latent variances of a GP, from one product φᵀB.

    mean (φᵀB)(C⁻¹Y),    variance s²(‖φ‖² − ‖φᵀB‖²)
    """
    features, norm = features_and_norm(factors.frequencies, measure)  # φ, ‖φ‖²
    mean, explained = _Projection.apply(features, factors.projection, factors.coefficients)
    unexplained = ((1.0 if norm is None else norm) - explained).clamp(min=0)
    slopes = None
    if measure.input_variance is not None:
        weights = factors.projection @ factors.coefficients
        slopes = feature_slopes(factors.frequencies, features, weights)
    return PseudoGPMoments(mean, factors.signal[..., None, :] * unexplained, slopes)


class _Projection(torch.autograd.Function):
    """The products m = PE and e = ‖P‖² of every row, where P = ΦB and E = C⁻¹Y.

    The gradient of the objective with respect to P is P̄ = m̄Eᵀ + 2ē·P, here in a single tensor.
    """

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


class PseudoGP(nn.Module):
    """G zero-mean sparse spectrum GPs, the functions, with K learnable pseudo-points in common.

    They are computed in the dual form. With Φ_K ∈ R^{K×F} the features of the pseudo-inputs and
    CCᵀ = Φ_KΦ_Kᵀ + λI, put B = Φ_KᵀC⁻ᵀ. This costs N·F·K where the weight-space form costs N·F².
    The pseudo-targets of a function with prior variance s² have the covariance s²CCᵀ, and so the
    noise σ² = λs²: B is the same for all functions.

    The hierarchical prior on the pseudo-targets Y is their own log evidence. It has two forms.
    ``"evidence"`` learns Y and adds −log N(Y; 0, s²CCᵀ): the literal form, but without a bound,
    because Y and σ² can shrink together. ``"whitened"`` learns ε with Y = sCε and adds ½‖ε‖², which
    is bounded.
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
        # Y as deviations from the prior mean, or ε if whitened; at zero the warp is the identity.
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
        """Place the pseudo-inputs of a single member near rows of a sample.

        Args:
            sample: Rows of inputs.
            spread: Standard deviation of each input.
            generator: A generator on the CPU.
        """
        n_pseudo, n_inputs = self.pseudo_inputs.shape
        rows = torch.randperm(max(len(sample), n_pseudo), generator=generator)[:n_pseudo]
        # A little away from the rows, because a sample may contain the same row twice.
        offset = 0.1 * torch.randn(n_pseudo, n_inputs, generator=generator, dtype=torch.float64)
        self.pseudo_inputs.copy_(sample[rows % len(sample)] + offset * spread)

    def factors(self) -> tuple[PseudoGPFactors, Float64[Tensor, "*B"]]:
        """Return the factors of the GP, and the negative log prior of the pseudo-targets."""
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
            PseudoGPFactors(frequencies, projection, coefficients, self.log_signal.exp()),
            negative_log_prior,
        )
