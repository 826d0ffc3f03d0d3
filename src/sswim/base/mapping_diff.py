"""What is not the same in two descriptions of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any], prefix: str = "") -> list[str]:
    """In which entries two mappings differ, at any depth, in words."""
    found = []
    for key in {**theirs, **ours}:
        one, other = theirs.get(key), ours.get(key)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            found += differences(one, other, f"{prefix}{key}.")
        elif one != other:
            found.append(f"{prefix}{key} is {one!r}, not {other!r}")
    return found
