"""Squared distances as products, and bounds on their rounding errors.

With x and y from a common centre, |x − y|² = (−2x, |x|², 1)·(y, 1, |y|²). The product differs from
the true value by at most κ(|x| + |y|)². With the unit roundoff u this is the sum of the errors
(D + 2)u(|x| + |y|)² of the product, u|x| and u|y| of the factors' entries, and Du|x|² and Du|y|² of
their squares; κ is twice as large, which allows for terms in u² and for sums in any order.

Let t be the true distance of a point. Its |x| is at most |y| + t, so its product s satisfies
|s − t²| ≤ κ(2|y| + t)² ≤ 2κ(4|y|² + t²).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Float64
from torch import Tensor

TINY = 2.0**-100
"""Error of products whose terms are too small for float32."""

LARGEST = 2.0**50
"""Largest coordinate whose products are certain not to overflow in float32."""


def product_dtype() -> torch.dtype:
    """Return float32, or float64 if PyTorch may multiply float32 with fewer bits than these."""
    return torch.float32 if torch.get_float32_matmul_precision() == "highest" else torch.float64


def point_factors(
    points: Float64[Tensor, "N D"], centre: Float64[Tensor, " D"], dtype: torch.dtype
) -> Float[Tensor, "N F"]:
    """Return (−2x, |x|², 1) of points."""
    factors = torch.ones(len(points), points.shape[1] + 2, dtype=dtype, device=points.device)
    centred = points - centre
    factors[:, :-2] = centred
    factors[:, :-2] *= -2
    factors[:, -2] = centred.square_().sum(-1)
    return factors


def query_factors(
    queries: Float64[Tensor, "Q D"], centre: Float64[Tensor, " D"], dtype: torch.dtype
) -> Float[Tensor, "Q F"]:
    """Return (y, 1, |y|²) of queries."""
    factors = torch.ones(len(queries), queries.shape[1] + 2, dtype=dtype, device=queries.device)
    centred = queries - centre
    factors[:, :-2] = centred
    factors[:, -1] = centred.square_().sum(-1)
    return factors


def farthest(
    products: Float[Tensor, " Q"], squares: Float64[Tensor, " Q"], n_inputs: int
) -> Float64[Tensor, " Q"]:
    """Return the largest squared distances that products can stand for.

    Args:
        products: Squared distances as products.
        squares: |y|² of the queries.
        n_inputs: D.
    """
    kappa = _kappa(n_inputs, products.dtype)
    return (products.to(torch.float64).clamp(min=0) + 8 * kappa * squares + TINY) / (1 - 2 * kappa)


def largest_product(
    squared: Float64[Tensor, " Q"],
    squares: Float64[Tensor, " Q"],
    n_inputs: int,
    dtype: torch.dtype,
) -> Float64[Tensor, " Q"]:
    """Return the largest products of points within given squared distances.

    Args:
        squared: Squared distances.
        squares: |y|² of the queries.
        n_inputs: D.
        dtype: Precision of the products.
    """
    kappa = _kappa(n_inputs, dtype)
    return squared + kappa * (2 * squares.sqrt() + squared.sqrt()).square() + TINY


def _kappa(n_inputs: int, dtype: torch.dtype) -> float:
    return (2 * n_inputs + 8) * torch.finfo(dtype).eps
