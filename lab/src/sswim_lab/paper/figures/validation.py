"""Checks of the data sets and methods that are requested for a figure."""

from __future__ import annotations

from collections.abc import Collection

from sswim.base.validation import UserError
from sswim_lab.paper.request import Request


def require_methods(request: Request, name: str, own: Collection[str]) -> None:
    """Raise an error if a requested method is not among the figure's own."""
    if not set(request.methods) <= set(own):
        raise UserError(
            f"The methods of {name} must be among {', '.join(own)}. "
            f"Got {', '.join(request.methods)}."
        )


def require_defaults(request: Request, name: str) -> None:
    """Raise an error if data sets or methods are requested for a figure with its own ones."""
    chosen = (*request.sets, *request.methods)
    if chosen:
        raise UserError(
            f"{name} has its own rows and model, so neither data sets nor methods can be chosen. "
            f"Got {', '.join(chosen)}."
        )
