"""Predictions of points from their neighbours, in the notation of :mod:`~.local_solve`.

With the kriging weights w = K_N⁻¹k + β(1 − 1ᵀK_N⁻¹k)/1ᵀK_N⁻¹1, which add up to one,

    mean wᵀz,    latent variance ŝ²(1 − kᵀK_N⁻¹k + (1 − 1ᵀK_N⁻¹k)²/1ᵀK_N⁻¹1).

The amplitude ŝ² is that of the first few neighbours. Their factor and their whitened targets are
the leading parts of those of all neighbours, so it costs nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sswim.base.cholesky import cholesky
from sswim.base.record import Record
from sswim.model.exact_kernel import (
    cross_kernel,
    expected_cross_kernel,
    far_away,
    kernel_matrix,
)
from sswim.model.spectrum import Kernel
from sswim.posterior.neighbour_index import MAP_INPUTS
from sswim.posterior.neighbour_rows import NeighbourRows

N_AMPLITUDE = 16
"""Largest number of near neighbours that the amplitude comes from; on a map, of near and far ones
each."""


@dataclass(frozen=True)
class LocalPrediction(Record):
    """Predictions of points from their neighbours."""

    mean: Float64[Tensor, "Q T"]
    """Mean of z."""
    unit_variance: Float64[Tensor, "Q T"]
    """Variance of the function, in units of the amplitude."""
    amplitude: Float64[Tensor, "Q T"]
    """ŝ², the amplitude of the neighbourhood."""
    degrees: Float64[Tensor, "Q T"]
    """Degrees of freedom."""
    weights: Float64[Tensor, "Q T m"] | None = None
    """w, the weights of the neighbours; zero for a missing one."""


def predict_locally(
    rows: NeighbourRows,
    indices: Int64[Tensor, "Q m"],
    points: Float64[Tensor, "Q D"],
    kernel: Kernel,
    signal: Float64[Tensor, " T"],
    degrees: Float64[Tensor, " T"] | None,
    ridge_ratio: Float64[Tensor, "Q m"] | None = None,
    point_variance: Float64[Tensor, "Q D"] | None = None,
    *,
    weights: bool = False,
) -> LocalPrediction:
    """Predict points from their neighbours; differentiable in the points.

    Args:
        rows: The rows.
        indices: Each point's neighbours among them; −1 for a missing one.
        points: Warped inputs in units of the length-scales.
        kernel: The kernel.
        signal: s².
        degrees: ν; None for the same amplitude everywhere.
        ridge_ratio: Factors of the neighbours' ridges; None for one.
        point_variance: Variances of the points; None for none.
        weights: Whether to return the weights of the neighbours.
    """
    present = (indices >= 0).to(torch.float64)
    indices = indices.clamp(min=0)
    around = rows.points[indices] - points[:, None]  # near the origin, where rounding is least
    around = far_away(around, present)
    variance = None if rows.variance is None else rows.variance[indices]
    origin = torch.zeros_like(points)[:, None]
    fixed = around.detach()  # the kernel of the neighbours does not depend on the point
    if variance is None:
        matrix = cross_kernel(fixed, fixed, kernel)
        towards = cross_kernel(around, origin, kernel)
    else:
        own = origin if point_variance is None else point_variance[:, None]
        matrix = kernel_matrix(fixed, variance, kernel)
        towards = expected_cross_kernel(around, variance, origin, own, kernel)
    towards = towards[..., 0]  # k
    ridge = rows.ridge[indices].mT  # (Q, T, m)
    if ridge_ratio is not None:
        ridge = ridge * ridge_ratio[:, None]
    n_targets = ridge.shape[1]
    matrix = matrix[:, None] if n_targets == 1 else matrix[:, None].repeat(1, n_targets, 1, 1)
    matrix.diagonal(dim1=-2, dim2=-1).copy_(1 + ridge)
    factor = cholesky(matrix, "covariance of a neighbourhood")
    targets = rows.targets[indices].mT * present[:, None]
    ones = present[:, None].expand_as(targets)
    sides = torch.stack((targets, ones, towards[:, None].expand_as(targets)), dim=-1)
    whitened = torch.linalg.solve_triangular(factor, sides, upper=False)  # (Q, T, m, 3)
    of_targets, of_ones, of_point = whitened.unbind(-1)
    mass = of_ones.square().sum(-1)
    mass = torch.where(mass > 0, mass, 1.0)  # a point without neighbours
    constant = (of_targets * of_ones).sum(-1) / mass  # b
    missing = 1 - (of_ones * of_point).sum(-1)  # 1 − 1ᵀK⁻¹k
    centred = of_targets - constant[..., None] * of_ones
    mean = constant + (centred * of_point).sum(-1)
    unit_variance = 1 - of_point.square().sum(-1) + missing.square() / mass
    found = None
    if weights:
        side = of_point + (missing / mass)[..., None] * of_ones
        found = torch.linalg.solve_triangular(factor.mT, side[..., None], upper=True)[..., 0]
        found = found * present[:, None]
    first = slice(N_AMPLITUDE * (2 if points.shape[1] <= MAP_INPUTS else 1))
    amplitude, total = _amplitude(
        of_targets[..., first], of_ones[..., first], present[:, first], signal, degrees
    )
    return LocalPrediction(mean, unit_variance.clamp(min=0), amplitude, total, found)


def _amplitude(
    of_targets: Float64[Tensor, "Q T m"],
    of_ones: Float64[Tensor, "Q T m"],
    present: Float64[Tensor, "Q m"],
    signal: Float64[Tensor, " T"],
    degrees: Float64[Tensor, " T"] | None,
) -> tuple[Float64[Tensor, "Q T"], Float64[Tensor, "Q T"]]:
    """Return ŝ² and the degrees of freedom of neighbours; infinite ones for one amplitude."""
    if degrees is None:
        shape = of_targets[..., 0]
        return signal.expand_as(shape), torch.full_like(shape, torch.inf)
    product = (of_targets * of_ones).sum(-1)
    mass = of_ones.square().sum(-1).clamp(min=1e-30)  # zero without neighbours
    square = (of_targets.square().sum(-1) - product.square() / mass).clamp(min=0)  # q
    count = present.sum(-1, keepdim=True).clamp(min=1)
    total = degrees + count - 1
    return (degrees * signal + square) / total, total
