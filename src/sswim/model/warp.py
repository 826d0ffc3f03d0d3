"""Warps: measures of g(x) ⊙ x + h(x), with g and h conditioned on learnable pseudo-data.

g = 1 + δ. Both δ and h are zero-mean multi-output sparse spectrum GPs, so a warp is the identity
away from its pseudo-points. The outputs of each share their features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from jaxtyping import Float64
from torch import Tensor, nn

from sswim.base.record import Record
from sswim.model.pseudo_gp import (
    PseudoGP,
    PseudoGPFactors,
    PseudoGPMoments,
    PseudoPrior,
    pseudo_gp_moments,
)
from sswim.rows.measure import Measure, full_covariance


@dataclass(frozen=True)
class WarpFactors(Record):
    """The tensors that a warp of rows is computed from."""

    gps: tuple[PseudoGPFactors, ...]
    """Factors of δ = g − 1 and of h: two GPs, or one GP whose two functions they are."""


def warp(factors: WarpFactors, measure: Measure) -> Measure:
    """Return the measure of g(x) ⊙ x + h(x) for x ~ N(m, diag v), by its first two moments.

        m' = ĝ ⊙ m + ĥ,    v' = m²·v_g + v_h + v·(v_g + ĝ²)

    For a point (v = 0) the warped input is Gaussian with exactly these moments. For the output of
    another warp they hold if x, g and h are independent, with ĝ, ĥ, v_g and v_h from expected
    features.

    If the raw input is uncertain with covariance P, then g(x) and h(x) vary with x, and
    independence would be wrong however small P is. The expected slope
    J = E ∂(g(x) ⊙ x + h(x))/∂x gives instead

        m' = ĝ ⊙ m + ĥ + diag(P (∂ĝ/∂m)ᵀ),    P' = JPJᵀ,    v' = … + diag(P)·v_g.
    """
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
    covariance = full_covariance(measure.mean, measure.input_variance)  # P
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
    """The parameters of one warp: two GPs for δ = g − 1 and for h, or one GP for both."""

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
        n_gps = 1 if joint else 2
        sizes = (n_inputs, n_inputs, 2 // n_gps, n_frequencies, n_pseudo)
        self.parts = nn.ModuleList(PseudoGP(*sizes, prior, batch) for _ in range(n_gps))

    def gps(self) -> list[PseudoGP]:
        """Return the GPs of δ and of h, or the one GP of both."""
        return [cast(PseudoGP, gp) for gp in self.parts]

    def condition(self) -> tuple[WarpFactors, Float64[Tensor, "*B"]]:
        """Return the factors of the warp, and the negative log prior of the pseudo-targets."""
        factors, priors = zip(*(gp.condition() for gp in self.gps()), strict=True)
        return WarpFactors(factors), sum(priors[1:], priors[0])
