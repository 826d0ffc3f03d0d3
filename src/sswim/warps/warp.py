"""Warps: measures of G(x) x + h(x), with G and h conditioned on learnable pseudo-data.

A warp has one of three matrices G. Functions of x below are zero-mean multi-output sparse spectrum
GPs, whose outputs share their features; P is a deterministic parameter with Q rows and D columns.

    "diagonal"     G(x) = diag(1 + δ(x)),       which keeps the dimension: g(x) ⊙ x + h(x)
    "projected"    G(x) = diag(1 + δ(Px)) P,    and h(Px): project, then warp as above
    "full"         G(x) = P + Δ(x)

Away from its pseudo-points a warp is the identity, or the linear map P. In a full matrix the D
columns of Δ and h are D + 1 functions with Q outputs each. Outputs of one function share its
variance: s_d² says how much the d-th input may change the matrix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record, chunks
from sswim.kernels.features import multiply
from sswim.rows.rows import Measure, full_covariance
from sswim.warps.projection import Projection, project
from sswim.warps.pseudo_gp import (
    PseudoGP,
    PseudoGPFactors,
    PseudoGPMoments,
    PseudoPrior,
    pseudo_gp_moments,
)

WarpMatrix = Literal["diagonal", "projected", "full"]

MAX_SLOPES = 2**24
"""Largest number of slopes of all entries of the matrices that are held at once: 128 MiB."""


@dataclass(frozen=True)
class WarpFactors(Record):
    """The tensors that a warp of rows is computed from."""

    gps: tuple[PseudoGPFactors, ...]
    """Factors of δ = g − 1 and of h: two GPs, or one GP whose two functions they are. If the matrix
    is full, there are all columns of Δ in place of δ."""
    projection: Float[Tensor, "*B Q D"] | None = None
    """P; None for the identity."""
    is_full: bool = False
    """Whether the matrix is full."""


def warp(factors: WarpFactors, measure: Measure) -> Measure:
    """Return the measure of g(x) ⊙ x + h(x) for x ~ N(m, diag v), by its first two moments.

        m' = ĝ ⊙ m + ĥ,    v' = m²·v_g + v_h + v·(v_g + ĝ²)

    For a point (v = 0) the warped input is Gaussian with exactly these moments. For the output of
    another warp they hold if x, g and h are independent, with ĝ, ĥ, v_g and v_h from expected
    features.

    If the raw input is uncertain with covariance S, then g(x) and h(x) vary with x, and
    independence would be wrong however small S is. The expected slope
    J = E ∂(g(x) ⊙ x + h(x))/∂x gives instead

        m' = ĝ ⊙ m + ĥ + diag(S (∂ĝ/∂m)ᵀ),    S' = JSJᵀ,    v' = … + diag(S)·v_g.

    For the other matrices see :func:`sswim.warps.projection.project`, after which the formulas
    above hold, and :func:`matrix_warp`.
    """
    if factors.is_full:
        return matrix_warp(factors, measure)
    if factors.projection is not None:
        measure = project(factors.projection, measure)
    g, h = _split_functions([pseudo_gp_moments(gp, measure) for gp in factors.gps])
    scale = 1 + g.mean  # ĝ
    mean = scale * measure.mean + h.mean
    variance = measure.mean.square() * g.variance + h.variance
    if measure.variance is not None:
        variance = variance + measure.variance * (g.variance + scale.square())
    if measure.input_variance is None:
        return Measure(mean, variance)
    assert g.slopes is not None
    assert h.slopes is not None
    covariance = full_covariance(measure.mean, measure.input_variance)  # S
    mean = mean + (g.slopes * covariance).sum(-1)
    variance = variance + covariance.diagonal(dim1=-2, dim2=-1) * g.variance
    slopes = scale.diag_embed() + measure.mean[..., None] * g.slopes + h.slopes  # J
    return Measure(mean, variance, slopes @ covariance @ slopes.mT)


def _split_functions(moments: list[PseudoGPMoments]) -> tuple[PseudoGPMoments, PseudoGPMoments]:
    """Return the moments of δ and of h, given those of two GPs or of one GP for both."""
    if len(moments) == 2:
        return moments[0], moments[1]
    [both] = moments
    means, variances = both.mean.chunk(2, dim=-1), both.variance.chunk(2, dim=-1)
    slopes = (None, None) if both.slopes is None else both.slopes.chunk(2, dim=-2)
    g, h = (PseudoGPMoments(*parts) for parts in zip(means, variances, slopes, strict=True))
    return g, h


def matrix_warp(factors: WarpFactors, measure: Measure) -> Measure:
    """Return the measure of G(x) x + h(x) for x ~ N(m, diag v), by its first two moments.

        m' = Ĝm + ĥ,    v'_q = Σ_d (v_gd·(m_d² + v_d) + Ĝ_qd²·v_d) + v_h

    For a point (v = 0) the warped input is Gaussian with exactly these moments and independent
    coordinates. For the output of another warp they hold under the independence that
    :func:`warp` assumes; the covariances Σ_d Ĝ_qd·Ĝ_rd·v_d of two coordinates are
    left out.

    An uncertain raw input with covariance S is passed on by the expected slope J = E ∂(Gx + h)/∂x:

        m'_q = … + Σ_de S_de·∂Ĝ_qd/∂m_e,    S' = JSJᵀ,    v'_q = … + Σ_d S_dd·v_gd,
        J_qe = Ĝ_qe + Σ_d m_d·∂Ĝ_qd/∂m_e + ∂ĥ_q/∂m_e.
    """
    n_rows, n_inputs = measure.mean.shape[-2:]
    n_slopes = sum(gp.coefficients[..., 0, :].numel() for gp in factors.gps) * n_inputs  # of a row
    size = max(1, MAX_SLOPES // n_slopes)
    if measure.input_variance is None or n_rows <= size:
        return _warp_rows(factors, measure)
    axis = measure.mean.ndim - 2
    parts = [_warp_rows(factors, chunk) for chunk in chunks(measure, size, axis)]
    means, variances, covariances = zip(*(part.tensors() for part in parts), strict=True)
    return Measure(torch.cat(means, -2), torch.cat(variances, -2), torch.cat(covariances, -3))


def _warp_rows(factors: WarpFactors, measure: Measure) -> Measure:
    """Return what :func:`matrix_warp` does, all rows at once."""
    m, projection = measure.mean, factors.projection
    functions = _join_functions([pseudo_gp_moments(gp, measure) for gp in factors.gps])
    outputs = functions.mean.unflatten(-1, (m.shape[-1] + 1, -1))
    columns, shift = outputs[..., :-1, :], outputs[..., -1, :]  # Δ̂ᵀ, ĥ
    column_variance, shift_variance = functions.variance[..., :-1], functions.variance[..., -1:]
    mean = m if projection is None else multiply(m, projection.mT)
    mean = mean + torch.einsum("...d,...dq->...q", m, columns) + shift
    second_moment = m.square()
    if measure.variance is not None:
        second_moment = second_moment + measure.variance
    variance = (column_variance * second_moment).sum(-1, keepdim=True) + shift_variance
    variance = variance.expand(mean.shape).contiguous()  # the same for all coordinates
    if measure.variance is None and measure.input_variance is None:
        return Measure(mean, variance)
    if projection is None:
        matrix = columns + torch.eye(m.shape[-1], dtype=m.dtype, device=m.device)  # Ĝᵀ
    else:
        matrix = columns + projection.mT[..., None, :, :]
    if measure.variance is not None:
        spread = torch.einsum("...d,...dq->...q", measure.variance, matrix.square())
        variance = variance + spread
    if measure.input_variance is None:
        return Measure(mean, variance)
    assert functions.slopes is not None
    slopes = functions.slopes.unflatten(-2, (m.shape[-1] + 1, -1))
    column_slopes, shift_slopes = slopes[..., :-1, :, :], slopes[..., -1, :, :]
    covariance = full_covariance(m, measure.input_variance)  # S
    mean = mean + torch.einsum("...dqe,...de->...q", column_slopes, covariance)
    diagonal = covariance.diagonal(dim1=-2, dim2=-1)
    variance = variance + (column_variance * diagonal).sum(-1, keepdim=True)
    jacobian = matrix.mT + torch.einsum("...d,...dqe->...qe", m, column_slopes) + shift_slopes  # J
    return Measure(mean, variance, jacobian @ covariance @ jacobian.mT)


def _join_functions(moments: list[PseudoGPMoments]) -> PseudoGPMoments:
    """Return the moments of all columns of Δ and of h, given those of two GPs or of one."""
    if len(moments) == 1:
        return moments[0]
    slopes = [each.slopes for each in moments if each.slopes is not None]
    return PseudoGPMoments(
        torch.cat([each.mean for each in moments], dim=-1),
        torch.cat([each.variance for each in moments], dim=-1),
        torch.cat(slopes, dim=-2) if slopes else None,
    )


class WarpLayer(nn.Module):
    """The parameters of one warp: two GPs for δ = g − 1 and for h, or one GP for both; and P."""

    def __init__(
        self,
        n_inputs: int,
        n_frequencies: int,
        n_pseudo: int,
        prior: PseudoPrior,
        joint: bool,
        batch: tuple[int, ...] = (),
        *,
        is_full: bool = False,
        n_outputs: int | None = None,
    ) -> None:
        """Make the parameters of a warp.

        Args:
            n_inputs: D.
            n_frequencies: M.
            n_pseudo: K.
            prior: Prior of the pseudo-targets.
            joint: Whether there is one GP for both functions.
            batch: Axes of members.
            is_full: Whether the matrix is full.
            n_outputs: Q, for a warp with a projection, which is zero until it is started; None for
                one without.
        """
        super().__init__()
        self.is_full = is_full
        self.projection = None if n_outputs is None else Projection(n_inputs, n_outputs, batch)
        size = n_inputs if n_outputs is None else n_outputs  # Q
        domain, n_columns = (n_inputs, n_inputs) if is_full else (size, 1)
        n_functions = (n_columns + 1,) if joint else (n_columns, 1)
        self.parts = nn.ModuleList(
            PseudoGP(domain, size, n, n_frequencies, n_pseudo, prior, batch) for n in n_functions
        )
        if is_full:  # the columns of Δ share the prior variance, so that Δ(x) x varies as δ ⊙ x
            first = self.gps()[0]
            with torch.no_grad():
                first.log_signal[..., :n_inputs].sub_(math.log(n_inputs))
                first.log_noise.sub_(math.log(n_inputs))

    def gps(self) -> list[PseudoGP]:
        """Return the GPs of δ and of h, or the one GP of both."""
        return [cast(PseudoGP, gp) for gp in self.parts]

    def factors(self) -> tuple[WarpFactors, Float64[Tensor, "*B"]]:
        """Return the factors of the warp, and the negative log prior of its parameters."""
        factors, priors = zip(*(gp.factors() for gp in self.gps()), strict=True)
        prior = sum(priors[1:], priors[0])
        if self.projection is None:
            return WarpFactors(factors, is_full=self.is_full), prior
        projection, projection_prior = self.projection.factors()
        return WarpFactors(factors, projection, self.is_full), prior + projection_prior
