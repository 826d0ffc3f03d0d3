"""Amounts of memory as users write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def as_bytes(amount: int | str) -> int:
    """Return a number of bytes from an integer, or from text such as ``"2GiB"`` or ``"500 MB"``."""
    if isinstance(amount, int) and not isinstance(amount, bool) and amount >= 0:
        return amount
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(amount), re.IGNORECASE)
    if match is None:
        raise ValueError(f"memory must be a number of bytes, or like '2GiB'. Got {amount!r}.")
    number, unit = match.groups()
    return int(float(number) * _UNITS[unit.upper()])
