"""Checks that more than one module makes of what a caller chose."""

from __future__ import annotations

from typing import Any, get_args


def require_choice(name: str, value: object, choices: Any) -> None:
    """Refuse a value that is not one of a ``Literal``'s."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {get_args(choices)}. Got {value!r}.")
