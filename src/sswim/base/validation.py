"""Checks of arguments that several modules share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, cast, get_args

from sswim.base.errors import UserError

SMALLEST_TAIL = 1e-15
"""Smallest probability of a tail whose quantile is asked for."""


def require_choice(name: str, value: object, choices: Any) -> None:
    """Raise unless a value is one of the choices of a ``Literal``."""
    if value not in get_args(choices):
        raise UserError(f"{name} must be one of {get_args(choices)}. Got {value!r}.")


def require_integer(name: str, value: object, smallest: int, largest: int | None = None) -> None:
    """Raise unless a value is an integer between the smallest and the largest allowed one."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or int(cast(int, value)) < smallest:
        raise UserError(f"{name} must be an integer of at least {smallest}. Got {value!r}.")
    if largest is not None and int(cast(int, value)) > largest:
        raise UserError(f"{name} must be at most {largest}. Got {value!r}.")


def require_flag(name: str, value: object) -> None:
    """Raise unless a value is true or false."""
    if not isinstance(value, bool):
        raise UserError(f"{name} must be True or False. Got {value!r}.")


def require_positive(name: str, value: object) -> None:
    """Raise unless a value is a positive, finite number."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 < float(cast(float, value)) < math.inf:
        raise UserError(f'{name} must be positive and finite, or "auto". Got {value!r}.')


def require_coverage(coverage: float) -> None:
    """Raise unless a coverage lies strictly between 0 and 1, and leaves tails that are resolved."""
    if not 0 < coverage < 1:
        raise UserError(f"coverage must lie between 0 and 1. Got {coverage}.")
    require_tail("coverage", 0.5 * (1 - coverage), coverage)


def require_tail(name: str, tail: float, given: float) -> None:
    """Raise if the probability of a tail is so small that no quantile can be told from others.

    Args:
        name: Name of the argument.
        tail: Probability of the tail that the argument leaves.
        given: The argument.
    """
    if tail < SMALLEST_TAIL:
        raise UserError(
            f"{name} must leave tails of at least {SMALLEST_TAIL}, because numbers near one are "
            f"rounded and no data say more. Got {given!r}, which leaves {tail:.2g}."
        )


def require_restartable(chunks: Iterable[object]) -> None:
    """Raise unless chunks can be read more than once."""
    if iter(chunks) is chunks:
        raise UserError(
            "Chunks are read more than once, so they must come in an iterable that can be started "
            f"again. Got a {type(chunks).__name__}, which can be read once; make a list of it, or "
            "a class with __iter__."
        )
