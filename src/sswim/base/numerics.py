"""Quadrature, roots of functions, nodes of an uncertain input, and Student's t distribution."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from scipy import special
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


_MAX_STEPS = 200
"""Maximum number of Newton steps; ten are usual."""


def safeguarded_newton(
    error_and_step: Callable[[Tensor], tuple[Tensor, Tensor]],
    start: Float[Tensor, "*shape"],
    low: Float[Tensor, "*shape"],
    high: Float[Tensor, "*shape"],
    tolerance: Callable[[Tensor], Tensor],
) -> Float[Tensor, "*shape"]:
    """Find the roots of increasing functions by Newton steps within brackets.

    A step that leaves its bracket, or follows a step that did not halve the error, is replaced by
    a bisection.

    Args:
        error_and_step: Returns the function's values e and its Newton steps e/e'.
        start: First guesses.
        low: Lower ends of the brackets.
        high: Upper ends of the brackets.
        tolerance: Returns the step below which an entry has converged, given its present value.
    """
    values, last_error = start, torch.full_like(start, torch.inf)
    for _ in range(_MAX_STEPS):
        error, step = error_and_step(values)
        low = torch.where(error < 0, values, low)
        high = torch.where(error > 0, values, high)
        newton = values - step
        smallest_step = tolerance(values)
        done = ((newton - values).abs() <= smallest_step) | (high - low <= smallest_step)
        if bool(done.all()):
            break
        good = (newton >= low) & (newton <= high) & (error.abs() <= 0.5 * last_error)
        moved = torch.where(good, newton, 0.5 * (low + high))
        values, last_error = torch.where(done, values, moved), error.abs()
    return values


N_INPUT_NODES = 32
"""Number of inputs that stand for an uncertain input."""


def normal_nodes(n_inputs: int) -> Float64[Tensor, "nodes D"]:
    """Return nodes whose mean over any function approximates that over N(0, I).

    They come in pairs ±ξ and have unit variances, so that linear functions are exact.
    """
    engine = torch.quasirandom.SobolEngine(n_inputs, scramble=True, seed=0)
    half = torch.special.ndtri(
        engine.draw(N_INPUT_NODES // 2, dtype=torch.float64).clamp(1e-6, 1 - 1e-6)
    )
    nodes = torch.cat((half, -half))
    return nodes / nodes.square().mean(0).sqrt()


def symmetric_root(covariance: Float[Tensor, "N D D"]) -> Float[Tensor, "N D D"]:
    """Return the symmetric root of covariances, some of whose variances may be zero."""
    values, vectors = torch.linalg.eigh(covariance)
    return (vectors * values.clamp(min=0).sqrt()[:, None]) @ vectors.mT


def student_t_log_density(
    squared: Float64[Tensor, "*#N"], degrees: Float64[Tensor, "*#N"]
) -> Float64[Tensor, "*N"]:
    """Return Student's log p(t), given t²; differentiable in both."""
    half = 0.5 * degrees
    constant = torch.lgamma(half + 0.5) - torch.lgamma(half) - 0.5 * (math.pi * degrees).log()
    return constant - (half + 0.5) * (squared / degrees).log1p()


def student_t_cdf(
    values: Float64[Tensor, "*#N"], degrees: Float64[Tensor, "*#N"]
) -> Float64[Tensor, "*N"]:
    """Return the probability that Student's t is at most each value."""
    found = special.stdtr(degrees.cpu().numpy(), values.cpu().numpy())
    return torch.as_tensor(found, dtype=torch.float64).to(values.device)


def student_t_quantiles(
    values: Float64[Tensor, " Q"], degrees: Float64[Tensor, "*N"]
) -> Float64[Tensor, " Q *N"]:
    """Return the quantiles of t whose probabilities are those of standard normal values.

    Rows have few different numbers of degrees, and each is looked up once.
    """
    distinct, group = degrees.unique(return_inverse=True)
    normal = values.cpu().numpy()[:, None]
    # The lower tail, because probabilities near one are rounded.
    tail = special.stdtrit(distinct.cpu().numpy(), special.ndtr(-np.abs(normal)))
    found = torch.as_tensor(np.copysign(tail, normal), dtype=torch.float64)
    return found.to(degrees.device)[:, group]
