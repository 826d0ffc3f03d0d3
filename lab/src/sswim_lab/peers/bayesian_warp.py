"""A warp g with a GP prior, integrated out for arguments that are Gaussian.

y_n = g(f_n) + ε_n with ε_n ~ N(0, σ²), and g(f) = f + h(f) where h ~ GP(0, c) with
c(f, f') = α² exp(−½(f − f')²/ℓ²). The values u = h(z) + jitter at an even grid z, of covariance C,
represent the posterior of h.

With f_n ~ N(μ_n, v_n) under q let k_n = c(f_n, z), r_n = y_n − f_n, and

    Ψ = Σ_n E k_n k_nᵀ,   b = Σ_n E r_n k_n,   R = Σ_n E r_n² = Σ_n (y_n − μ_n)² + v_n,

    A = C + Ψ/σ².

The bound of Titsias and Lawrence on E log p(y|f) less the divergence of u, at the best q(u), is

    −½(N log 2πσ² + (R + Nα² − tr C⁻¹Ψ)/σ² + log|A| − log|C| − bᵀA⁻¹b/σ⁴),

and q(u) = N(CA⁻¹b/σ², CA⁻¹C).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.cholesky import cholesky
from sswim.base.record import Record

JITTER = 1e-6
"""Variance of the jitter of u, as a fraction of α²."""


@dataclass(frozen=True)
class WarpPrior(Record):
    """Hyper-parameters of the GP h, of the noise after the warp, and of the grid."""

    log_amplitude: Float64[Tensor, ""]
    """log α"""
    log_length: Float64[Tensor, ""]
    """log ℓ"""
    log_noise: Float64[Tensor, ""]
    """log σ"""
    low: Float64[Tensor, ""]
    """First point of the grid."""
    log_width: Float64[Tensor, ""]
    """Log of the distance from the first to the last point."""

    @property
    def noise_variance(self) -> Float64[Tensor, ""]:
        """σ²"""
        return (2 * self.log_noise).exp()

    @property
    def amplitude_variance(self) -> Float64[Tensor, ""]:
        """α²"""
        return (2 * self.log_amplitude).exp()

    def grid(self, n_points: int) -> Float64[Tensor, " m"]:
        """Return the evenly spaced points z."""
        steps = torch.linspace(0, 1, n_points, dtype=torch.float64, device=self.low.device)
        return self.low + self.log_width.exp() * steps

    def kernel(
        self, values: Float64[Tensor, "*N"], points: Float64[Tensor, " m"]
    ) -> Float64[Tensor, "*N m"]:
        """Return c(f, z)."""
        distance = (values[..., None] - points) * (-self.log_length).exp()
        return (2 * self.log_amplitude - 0.5 * distance.square()).exp()

    def factor(self, points: Float64[Tensor, " m"]) -> Float64[Tensor, "m m"]:
        """Return the lower Cholesky factor of C."""
        jitter = JITTER * self.amplitude_variance * torch.eye(len(points)).to(points)
        return cholesky(self.kernel(points, points) + jitter, "covariance of the warp")


@dataclass(frozen=True)
class Psi(Record):
    """Expectations of k = c(f, z) under f_n ~ N(μ_n, v_n)."""

    first: Float64[Tensor, "N m"]
    """E k_n"""
    weighted: Float64[Tensor, "N m"]
    """E f_n k_n"""
    second: Float64[Tensor, "m m"]
    """Ψ"""


def psi_statistics(
    prior: WarpPrior,
    n_points: int,
    mean: Float64[Tensor, " N"],
    variance: Float64[Tensor, " N"],
) -> Psi:
    """Return the expectations in closed form.

    E c(f, z) = α² √(ℓ²/t) exp(−½(μ − z)²/t) with t = ℓ² + v; f then has the mean (ℓ²μ + vz)/t. And
    c(f, z) c(f, z') = c(z, z')^½ α³ exp(−(f − z̄)²/ℓ²) where the midpoints z̄ = ½(z + z') of an even
    grid are themselves an even grid, of 2m − 1 points.
    """
    points = prior.grid(n_points)
    square, amplitude = (2 * prior.log_length).exp(), prior.amplitude_variance
    total = square + variance[:, None]
    first = amplitude * (square / total).sqrt()
    first = first * (-0.5 * (mean[:, None] - points).square() / total).exp()
    weighted = first * (square * mean[:, None] + variance[:, None] * points) / total
    midpoints = prior.grid(2 * n_points - 1)
    total = square + 2 * variance[:, None]
    bumps = (square / total).sqrt() * (-(mean[:, None] - midpoints).square() / total).exp()
    between = amplitude.sqrt() ** 3 * prior.kernel(points, points).sqrt()
    return Psi(first, weighted, between * bumps.sum(0).unfold(0, n_points, 1))


@dataclass(frozen=True)
class WarpPosterior(Record):
    """q(h), represented by the values u at the grid."""

    prior: WarpPrior
    points: Float64[Tensor, " m"]
    """z"""
    factor: Float64[Tensor, "m m"]
    """L, the lower Cholesky factor of C."""
    inner: Float64[Tensor, "m m"]
    """Lower Cholesky factor of I + L⁻¹ΨL⁻ᵀ/σ² = L⁻¹AL⁻ᵀ."""
    projected: Float64[Tensor, " m"]
    """inner⁻¹L⁻¹b/σ², whose square is bᵀA⁻¹b/σ⁴."""
    bound: Float64[Tensor, ""]
    """Lower bound on E log p(y|f), less the divergence of u."""

    def predict(
        self, values: Float64[Tensor, "*N"]
    ) -> tuple[Float64[Tensor, "*N"], Float64[Tensor, "*N"]]:
        """Return the mean and variance of g(f).

        They are f + kᵀA⁻¹b/σ² and c(f, f) − kᵀC⁻¹k + kᵀA⁻¹k, where k = c(f, z).
        """
        flat = values.reshape(-1)
        cross = self.prior.kernel(flat, self.points).mT
        white = torch.linalg.solve_triangular(self.factor, cross, upper=False)
        known = torch.linalg.solve_triangular(self.inner, white, upper=False)
        variance = self.prior.amplitude_variance - white.square().sum(0) + known.square().sum(0)
        mean = flat + self.projected @ known
        return mean.reshape(values.shape), variance.clamp(min=0).reshape(values.shape)


def warp_posterior(
    prior: WarpPrior,
    n_points: int,
    y: Float64[Tensor, " N"],
    mean: Float64[Tensor, " N"],
    variance: Float64[Tensor, " N"],
) -> WarpPosterior:
    """Return the best q(h) for targets y and f_n ~ N(μ_n, v_n)."""
    points, noise = prior.grid(n_points), prior.noise_variance
    psi = psi_statistics(prior, n_points, mean, variance)
    factor = prior.factor(points)
    half = torch.linalg.solve_triangular(factor, psi.second, upper=False)
    white = torch.linalg.solve_triangular(factor, half.mT, upper=False)  # L⁻¹ΨL⁻ᵀ
    identity = torch.eye(n_points).to(white)
    inner = cholesky(identity + white / noise, "covariance of the warp's values")
    linear = y @ psi.first - psi.weighted.sum(0)  # b
    projected = torch.linalg.solve_triangular(factor, linear[:, None], upper=False)
    projected = torch.linalg.solve_triangular(inner, projected, upper=False)[:, 0] / noise
    residual = (y - mean).square().sum() + variance.sum()  # R
    unknown = len(y) * prior.amplitude_variance - white.diagonal().sum()
    bound = -0.5 * (
        len(y) * (math.log(2 * math.pi) + 2 * prior.log_noise)
        + (residual + unknown) / noise
        + 2 * inner.diagonal().log().sum()
        - projected.square().sum()
    )
    return WarpPosterior(prior, points, factor, inner, projected, bound)
