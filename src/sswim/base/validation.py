"""Checks of arguments that several modules share."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any, get_args

from sswim.base.errors import UserError


def require_choice(name: str, value: object, choices: Any) -> None:
    """Raise unless a value is one of the choices of a ``Literal``."""
    if value not in get_args(choices):
        raise UserError(f"{name} must be one of {get_args(choices)}. Got {value!r}.")


def require_integer(name: str, value: object, smallest: int) -> None:
    """Raise unless a value is an integer that is not below the smallest allowed one."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < smallest:
        raise UserError(f"{name} must be an integer of at least {smallest}. Got {value!r}.")


def require_coverage(coverage: float) -> None:
    """Raise unless a coverage lies strictly between 0 and 1."""
    if not 0 < coverage < 1:
        raise UserError(f"coverage must lie between 0 and 1. Got {coverage}.")


def require_restartable(chunks: Iterable[object]) -> None:
    """Raise unless chunks can be read more than once."""
    if iter(chunks) is chunks:
        raise UserError(
            "Chunks are read more than once, so they must come in an iterable that can be started "
            f"again. Got a {type(chunks).__name__}, which can be read once; make a list of it, or "
            "a class with __iter__."
        )
