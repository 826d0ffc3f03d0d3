"""The general warp: measures of G(x) x + h(x), with a full matrix G(x) of Q rows and D columns.

G(x) = P + Δ(x). P is a deterministic parameter, and the D columns of Δ and h are D + 1 zero-mean
functions with Q outputs each. So far from the pseudo-points the warp is the linear map P. Outputs
of one function share its variance: s_d² says how much the d-th input may change the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from sswim.base.record import chunks
from sswim.model.features import multiply
from sswim.model.pseudo_gp import PseudoGPFactors, PseudoGPMoments, pseudo_gp_moments
from sswim.rows.measure import Measure, full_covariance

MAX_SLOPES = 2**24
"""Largest number of slopes of all entries of the matrices that are held at once: 128 MiB."""


def matrix_warp(
    gps: Iterable[PseudoGPFactors], projection: Float[Tensor, "*B Q D"] | None, measure: Measure
) -> Measure:
    """Return the measure of G(x) x + h(x) for x ~ N(m, diag v), by its first two moments.

        m' = Ĝm + ĥ,    v'_q = Σ_d (v_gd·(m_d² + v_d) + Ĝ_qd²·v_d) + v_h

    For a point (v = 0) the warped input is Gaussian with exactly these moments and independent
    coordinates. For the output of another warp they hold under the independence that
    :func:`sswim.model.warp.warp` assumes; the covariances Σ_d Ĝ_qd·Ĝ_rd·v_d of two coordinates are
    left out.

    An uncertain raw input with covariance S is passed on by the expected slope J = E ∂(Gx + h)/∂x:

        m'_q = … + Σ_de S_de·∂Ĝ_qd/∂m_e,    S' = JSJᵀ,    v'_q = … + Σ_d S_dd·v_gd,
        J_qe = Ĝ_qe + Σ_d m_d·∂Ĝ_qd/∂m_e + ∂ĥ_q/∂m_e.

    Args:
        gps: One GP of the columns of Δ and one of h, or one GP of all.
        projection: P; None for the identity.
        measure: m, v and S of every row.
    """
    gps = tuple(gps)
    n_rows, n_inputs = measure.mean.shape[-2:]
    n_slopes = sum(gp.coefficients[..., 0, :].numel() for gp in gps) * n_inputs  # of one row
    size = max(1, MAX_SLOPES // n_slopes)
    if measure.input_variance is None or n_rows <= size:
        return _warp_rows(gps, projection, measure)
    axis = measure.mean.ndim - 2
    parts = [_warp_rows(gps, projection, chunk) for chunk in chunks(measure, size, axis)]
    means, variances, covariances = zip(*(part.tensors() for part in parts), strict=True)
    return Measure(torch.cat(means, -2), torch.cat(variances, -2), torch.cat(covariances, -3))


def _warp_rows(
    gps: Iterable[PseudoGPFactors], projection: Float[Tensor, "*B Q D"] | None, measure: Measure
) -> Measure:
    """Return what :func:`matrix_warp` does, all rows at once."""
    m = measure.mean
    functions = _join_functions([pseudo_gp_moments(gp, measure) for gp in gps])
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
    matrix = columns + _rows_of_projection(projection, m)  # Ĝᵀ
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


def _rows_of_projection(
    projection: Float[Tensor, "*B Q D"] | None, like: Float[Tensor, "*N D"]
) -> Float[Tensor, "*C D Q"]:
    """Return Pᵀ with an axis for rows."""
    if projection is None:
        return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
    return projection.mT[..., None, :, :]
