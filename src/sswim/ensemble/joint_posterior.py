"""Joint posteriors of several points in the units of the target, differentiable in the points.

Output warps map Gaussian values of z to values of y, whose joint moments follow from Hermite
expansions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.numerics import N_NODES, hermite_nodes
from sswim.base.record import Record
from sswim.members.linear_regression import JointPrediction
from sswim.rows.scaling import Scaling
from sswim.warps.output_warp import OutputMap

_SMALLEST_DEVIATION = 1e-8
"""Smallest deviation of z that the map is expanded over, relative to 1 + |z|: it resolves a slope
to half of all digits. Over less than it a map is taken to be a straight line."""


def mapped_moments(
    inverse: Callable[[Tensor], Tensor],
    mean: Float64[Tensor, "*B N"],
    covariance: Float64[Tensor, "*B N N"],
) -> tuple[Float64[Tensor, "*B N"], Float64[Tensor, "*B N N"]]:
    """Return the mean and the covariance of y = g(z), where z is jointly Gaussian.

    With z_i = m_i + s_i·u_i and the Hermite polynomials He_k, the coefficients

        c_k(i) = E[g(m_i + s_i·u) He_k(u)]/√k!,    u ~ N(0, 1),

    are computed by Gauss-Hermite quadrature. For values whose u have the correlation ρ_ij,

        E y_i = c_0(i),    Cov(y_i, y_j) = Σ_{k≥1} ρ_ij^k·c_k(i)·c_k(j)

    (Mehler's formula). Every term is a Schur product of positive semi-definite matrices, and so is
    their sum. There are as many orders as nodes; with these Σ_{k≥1} c_k² is the variance that the
    quadrature gives, and no order is left out.

    Both are differentiable in mean and covariance, also where a variance is zero and where points
    are equal.

    Args:
        inverse: g, applied to every entry of a tensor of shape (Q, …, N); differentiable. It is
            the inverse T⁻¹ of an output warp z = T(y).
        mean: m, the mean of z, in units in which g changes over lengths of order one or more.
        covariance: Covariance of z; symmetric and positive semi-definite up to rounding.
    """
    nodes = hermite_nodes().to(device=mean.device)
    smallest = (_SMALLEST_DEVIATION * (1 + mean.detach().abs())).square()
    # The root has no gradient at zero. A smaller variance leaves ρ_ii below one instead.
    deviation = covariance.diagonal(dim1=-2, dim2=-1).clamp(min=smallest).sqrt()  # s
    points = nodes.points.reshape(-1, *(1,) * mean.ndim)
    values = inverse(mean + points * deviation)
    centre = values[N_NODES // 2]  # where the node is zero: deviations from it are small
    around = values - centre
    coefficients = torch.tensordot(nodes.polynomials * nodes.weights, around, dims=1)  # c
    correlation = covariance / (deviation[..., :, None] * deviation[..., None, :])  # ρ
    power = correlation
    joint = _outer(coefficients[1]) * power
    for coefficient in coefficients[2:]:
        power = power * correlation
        joint = joint + _outer(coefficient) * power
    return centre + coefficients[0], joint


def _outer(values: Float64[Tensor, "*B N"]) -> Float64[Tensor, "*B N N"]:
    """Return vvᵀ."""
    return values[..., :, None] * values[..., None, :]


@dataclass(frozen=True)
class JointPosterior(Record):
    """Mean and covariance of a function, or of observations of it, at q points.

    The axes of a batch come first. Several targets have the mean (…, q, T) and one covariance each,
    (…, T, q, q); covariances between targets are not computed. A target that was given as a flat
    array to ``fit`` has the mean (…, q) and the covariance (…, q, q).
    """

    mean: Float64[Tensor, "*points"]
    """Mean at every point."""
    covariance: Float64[Tensor, "*sets q q"]
    """Covariance of all pairs of points: symmetric, and positive semi-definite up to rounding."""
    flat_targets: bool = False
    """Whether there is no axis of targets."""

    @property
    def variance(self) -> Float64[Tensor, "*points"]:
        """Variance at every point, in the shape of the mean."""
        variance = self.covariance.diagonal(dim1=-2, dim2=-1)
        return variance if self.flat_targets else variance.mT

    @property
    def standard_deviation(self) -> Float64[Tensor, "*points"]:
        """Standard deviation at every point; where it is zero, so is its gradient."""
        variance = self.variance
        positive = variance > 0
        return torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)

    def of_flat_targets(self) -> JointPosterior:
        """Return the posterior of the only target, without an axis of targets."""
        return JointPosterior(self.mean[..., 0], self.covariance[..., 0, :, :], flat_targets=True)


def mix_jointly(
    members: Sequence[tuple[JointPrediction, OutputMap]],
    weights: Sequence[float],
    scaling: Scaling,
    *,
    include_noise: bool,
) -> JointPosterior:
    """Return the mean and the covariance of the mixture of members, in the units of the target.

        μ = Σ w_m μ_m,    C = Σ w_m (C_m + (μ_m − μ)(μ_m − μ)ᵀ)

    Args:
        members: Each member's prediction of z = T(y), and its output warp T.
        weights: Weights of the members, which add up to one.
        scaling: Means and spreads that standardise the data.
        include_noise: Whether the values are observations, or the function.
    """
    moments = [_moments(*member, include_noise=include_noise) for member in members]
    mean, total = (torch.zeros_like(each) for each in moments[0])
    for weight, (own, _) in zip(weights, moments, strict=True):
        mean = mean + weight * own
    for weight, (own, covariance) in zip(weights, moments, strict=True):
        total = total + weight * (covariance + _outer(own - mean))
    total = 0.5 * (total + total.mT)  # products of matrices are symmetric up to rounding
    scale = scaling.target_spread.square()[:, None, None]
    return JointPosterior(scaling.original_targets(mean.mT), total * scale)


def _moments(
    prediction: JointPrediction, output: OutputMap, *, include_noise: bool
) -> tuple[Float64[Tensor, "B T q"], Float64[Tensor, "B T q q"]]:
    """Return the mean and the covariance of a member's standardised y.

    A Student-t prediction of z counts as the Gaussian with the same mean and covariance.
    """
    mean, covariance = prediction.mean.mT, prediction.covariance
    if include_noise:
        covariance = covariance + prediction.noise.mT.diag_embed()
    if type(output) is OutputMap:
        return mean, covariance
    return mapped_moments(lambda z: output.inverse(z.mT).mT, mean, covariance)
