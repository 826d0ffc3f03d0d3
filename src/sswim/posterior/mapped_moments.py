"""Joint moments of a nonlinear function of Gaussian values, by Hermite expansions."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.quadrature import N_NODES, hermite_nodes

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
