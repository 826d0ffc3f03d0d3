"""Gauss-Hermite quadrature: expectations over a standard normal distribution."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from sswim.base.record import Record

N_NODES = 21
"""Number of nodes: exact for polynomials of degree 41, enough for means under output warps."""


@dataclass(frozen=True)
class Nodes(Record):
    """Nodes of the quadrature E f(ξ) ≈ Σ_q weights_q f(points_q) for ξ ~ N(0, 1)."""

    points: Float64[Tensor, " Q"]
    """Points at which the function is evaluated."""
    weights: Float64[Tensor, " Q"]
    """Weights of the points; they add up to one."""
    polynomials: Float64[Tensor, "Q Q"]
    """He_k(points)/√k!, Hermite polynomials of orders k < Q; orthonormal under the weights."""


@functools.cache
def hermite_nodes() -> Nodes:
    """Return the nodes, on the CPU."""
    points, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    norms = np.sqrt([math.factorial(order) for order in range(N_NODES)])
    polynomials = np.polynomial.hermite_e.hermevander(points, N_NODES - 1).T / norms[:, None]
    return Nodes(
        torch.from_numpy(points),
        torch.from_numpy(weights / weights.sum()),
        torch.from_numpy(polynomials),
    )
