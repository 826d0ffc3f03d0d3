"""Amounts of memory, written as a number of bytes or as text such as ``"2GiB"``."""

from __future__ import annotations

import re

from sswim.base.errors import UserError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def as_bytes(amount: int | str) -> int:
    """Convert an integer, or text such as ``"2GiB"`` or ``"500 MB"``, to a number of bytes."""
    if isinstance(amount, int) and not isinstance(amount, bool) and amount >= 0:
        return amount
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(amount), re.IGNORECASE)
    if match is None:
        raise UserError(f"memory must be a number of bytes, or text like '2GiB'. Got {amount!r}.")
    number, unit = match.groups()
    return int(float(number) * _UNITS[unit.upper()])
