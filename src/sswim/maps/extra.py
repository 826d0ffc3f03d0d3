"""Packages of the extra ``maps``, which are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from sswim.base.errors import UserError


def import_extra(name: str) -> ModuleType:
    """Import a package of the extra, or say how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(
            f"Maps need the package {name}, which cannot be imported: {error}. Install the extra: "
            'pip install "sswim[maps]".'
        ) from error
