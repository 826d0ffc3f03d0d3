"""Checks that more than one module makes of what a caller chose."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, get_args


def require_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that is not one of a ``Literal``'s."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {get_args(choices)}. Got {value!r}.")


def require_integer(name: str, value: object, smallest: int) -> None:
    """Raise unless a value is a whole number, and large enough."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < smallest:
        raise ValueError(f"{name} must be an integer of at least {smallest}. Got {value!r}.")


def require_coverage(coverage: float) -> None:
    """Refuse a coverage that no interval has."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie between 0 and 1. Got {coverage}.")


def require_restartable(chunks: Iterable[object]) -> None:
    """Refuse chunks that can be read only once."""
    if iter(chunks) is chunks:
        raise ValueError(
            "Chunks are read more than once, so they must come in an iterable that can be started "
            f"again. Got a one-way {type(chunks).__name__}; make a list of it, or a class with "
            "__iter__."
        )
