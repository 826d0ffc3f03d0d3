"""Gauss-Hermite quadrature: expectations over a standard normal."""

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
"""Enough for means of output warps: exact for polynomials of degree 41."""


@dataclass(frozen=True)
class Nodes(Record):
    """E f(ξ) ≈ Σ_q weights_q f(points_q) for ξ ~ N(0, 1)."""

    points: Float64[Tensor, " Q"]
    weights: Float64[Tensor, " Q"]
    polynomials: Float64[Tensor, "Q Q"]
    """He_k(points)/√k! for the orders k < Q: orthonormal under the weights."""


@functools.cache
def hermite_nodes() -> Nodes:
    """The nodes, on the CPU."""
    points, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    norms = np.sqrt([math.factorial(order) for order in range(N_NODES)])
    polynomials = np.polynomial.hermite_e.hermevander(points, N_NODES - 1).T / norms[:, None]
    return Nodes(
        torch.from_numpy(points),
        torch.from_numpy(weights / weights.sum()),
        torch.from_numpy(polynomials),
    )
