"""Warps: measures of G(x) x + h(x), with G and h conditioned on learnable pseudo-data.

A warp has one of three matrices G. Functions of x below are zero-mean multi-output sparse spectrum
GPs, whose outputs share their features; P is a deterministic parameter with Q rows and D columns.

    "diagonal"     G(x) = diag(1 + δ(x)),       which keeps the dimension: g(x) ⊙ x + h(x)
    "projected"    G(x) = diag(1 + δ(Px)) P,    and h(Px): project, then warp as above
    "full"         G(x) = P + Δ(x)              (:mod:`sswim.model.matrix_warp`)

Away from its pseudo-points a warp is the identity, or the linear map P.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, cast

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.model.matrix_warp import matrix_warp
from sswim.model.projection import Projection, project
from sswim.model.pseudo_gp import (
    PseudoGP,
    PseudoGPFactors,
    PseudoGPMoments,
    PseudoPrior,
    pseudo_gp_moments,
)
from sswim.rows.measure import Measure, full_covariance

WarpMatrix = Literal["diagonal", "projected", "full"]


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

    For the other matrices see :func:`sswim.model.projection.project`, after which the formulas
    above hold, and :func:`sswim.model.matrix_warp.matrix_warp`.
    """
    if factors.is_full:
        return matrix_warp(factors.gps, factors.projection, measure)
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
        if self.is_full:
            self._share_signal(n_inputs)

    @torch.no_grad()
    def _share_signal(self, n_inputs: int) -> None:
        """Divide the prior variance among the columns of Δ, so that Δ(x) x varies as δ ⊙ x does."""
        first = self.gps()[0]
        first.log_signal[..., :n_inputs].sub_(math.log(n_inputs))
        first.log_noise.sub_(math.log(n_inputs))

    def gps(self) -> list[PseudoGP]:
        """Return the GPs of δ and of h, or the one GP of both."""
        return [cast(PseudoGP, gp) for gp in self.parts]

    def condition(self) -> tuple[WarpFactors, Float64[Tensor, "*B"]]:
        """Return the factors of the warp, and the negative log prior of its parameters."""
        factors, priors = zip(*(gp.condition() for gp in self.gps()), strict=True)
        prior = sum(priors[1:], priors[0])
        if self.projection is None:
            return WarpFactors(factors, is_full=self.is_full), prior
        projection, projection_prior = self.projection.condition()
        return WarpFactors(factors, projection, self.is_full), prior + projection_prior
