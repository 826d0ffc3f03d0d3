"""Differences between two nested mappings, such as the settings of two runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def differences(theirs: Mapping[str, Any], ours: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Describe every entry in which two mappings differ, at any depth.

    Args:
        theirs: The mapping whose values are named first: "depth is 2, not 1".
        ours: The mapping whose values are named second.
        prefix: Text in front of every key, for nested mappings.
    """
    found = []
    for key in {**theirs, **ours}:
        their_value, our_value = theirs.get(key), ours.get(key)
        if isinstance(their_value, Mapping) and isinstance(our_value, Mapping):
            found += differences(their_value, our_value, f"{prefix}{key}.")
        elif their_value != our_value:
            found.append(f"{prefix}{key} is {their_value!r}, not {our_value!r}")
    return found
