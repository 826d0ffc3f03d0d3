"""Keys of rows: 64-bit numbers that are equal where all values of two rows are."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def row_keys(values: Float[Tensor, "N C"]) -> Int64[Tensor, " N"]:
    """Hash the values of every row, in their precision, by SplitMix64.

    Keys do not depend on the order of the rows or on the device.
    """
    integers = torch.int32 if values.dtype == torch.float32 else torch.int64
    keys = torch.zeros(len(values), dtype=torch.int64, device=values.device)
    for column in (values + 0.0).contiguous().view(integers).unbind(-1):  # −0 becomes 0
        keys = _mix(keys ^ column)
    return keys


def _mix(keys: Int64[Tensor, " N"]) -> Int64[Tensor, " N"]:
    """Mix the bits of integers by SplitMix64."""
    keys = keys + -0x61C8864680B583EB  # 0x9E3779B97F4A7C15, as all constants here modulo 2^64
    keys = (keys ^ _shift(keys, 30)) * -0x40A7B892E31B1A47
    keys = (keys ^ _shift(keys, 27)) * -0x6B2FB644ECCEEE15
    return keys ^ _shift(keys, 31)


def _shift(keys: Int64[Tensor, " N"], places: int) -> Int64[Tensor, " N"]:
    """Shift bits to the right, with zeros from the left."""
    return (keys >> places) & ((1 << (64 - places)) - 1)
