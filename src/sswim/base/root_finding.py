"""Roots of increasing functions, one root for every entry of a tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

_BISECTIONS = 60
"""Number of halvings, which shrink a bracket below the rounding of float64."""

_MAX_STEPS = 200
"""Maximum number of Newton steps; ten are usual."""


def bisect(
    is_below: Callable[[Tensor], Tensor],
    low: Float[Tensor, "*shape"],
    high: Float[Tensor, "*shape"],
) -> Float[Tensor, "*shape"]:
    """Find where an increasing function crosses a level, by bisection.

    Args:
        is_below: Returns for every entry whether the function is below the level.
        low: Lower ends of the brackets.
        high: Upper ends of the brackets.
    """
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        below = is_below(middle)
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return 0.5 * (low + high)


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
