"""The Brusselator, a reaction of two substances that diffuse, as in the benchmark ``bnn-bo``."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.linalg import expm

SIZE = 32
"""Cells along a side of the grid, of width 1; ``bnn-bo`` has 64."""
SECONDS, STEP = 20.0, 0.01
MARGIN, INSIDE_WEIGHT = 2, 0.1
"""Cells further from the border than the margin have this weight in the variance, others 1."""

BOUNDS = ((0.1, 5.0), (0.1, 5.0), (0.01, 5.0), (0.01, 5.0))
"""Supply a, reaction rate b, and the diffusion of both substances."""


def weighted_variance(parameters: Float64[np.ndarray, " 4"]) -> float:
    """Return the variance of the weighted solution after 20 seconds.

    With small a and large b it oscillates, with jumps of u to 10 and more: there the variance is
    large and changes fast, elsewhere it is small and smooth (Li et al., 2024, "A study of Bayesian
    neural network surrogates for Bayesian optimization").
    """
    weights = np.ones((SIZE, SIZE))
    weights[MARGIN:-MARGIN, MARGIN:-MARGIN] = INSIDE_WEIGHT
    return float(np.var(np.stack(solve(*map(float, parameters))) * weights, ddof=1))


def solve(
    a: float, b: float, diffusion_u: float, diffusion_v: float
) -> tuple[Float64[np.ndarray, "N N"], Float64[np.ndarray, "N N"]]:
    """Return both substances after 20 seconds, from rest with a fixed disturbance of v.

        u' = D_u Δu + a − (b + 1) u + u² v,    v' = D_v Δv + b u − u² v

    Nothing crosses the border. Diffusion is exact; the reactions are linearly implicit, so
    that nothing blows up, whatever the parameters.
    """
    noise = np.random.RandomState(0).standard_normal((SIZE, SIZE))
    u, v = np.full((SIZE, SIZE), a), b / a + 0.1 * noise
    spread_u, spread_v = _diffusion(diffusion_u), _diffusion(diffusion_v)
    for _ in range(round(SECONDS / STEP)):
        rate = STEP * u * u
        v = (v + STEP * b * u) / (1 + rate)
        u = (u + STEP * a + rate * v) / (1 + STEP * (b + 1))
        u = spread_u @ u @ spread_u
        v = spread_v @ v @ spread_v
    return u, v


def _diffusion(rate: float) -> Float64[np.ndarray, "N N"]:
    """Return the symmetric matrix of one step of diffusion along an axis."""
    laplacian = -2 * np.eye(SIZE) + np.eye(SIZE, k=1) + np.eye(SIZE, k=-1)
    laplacian[0, 0] = laplacian[-1, -1] = -1
    return expm(STEP * rate * laplacian)
