"""What of a request a figure leaves to choose."""

from __future__ import annotations

from collections.abc import Collection

from sswim.lab.paper.request import Request


def require_methods(request: Request, name: str, own: Collection[str]) -> None:
    """Refuse methods that are not among a figure's own."""
    if not set(request.methods) <= set(own):
        raise ValueError(
            f"The methods of {name} must be of {', '.join(own)}. Got {', '.join(request.methods)}."
        )


def require_no_choice(request: Request, name: str) -> None:
    """Refuse data sets and methods where a figure has rows and a model of its own."""
    chosen = (*request.sets, *request.methods)
    if chosen:
        raise ValueError(
            f"{name} has rows and a model of its own, so that neither data sets nor methods can be "
            f"chosen. Got {', '.join(chosen)}."
        )
