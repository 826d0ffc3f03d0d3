"""Roots of increasing functions, one root for every entry of a tensor."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

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
