"""Damaged files, as Hypothesis draws them: bytes changed, cut, inserted, repeated or swapped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hypothesis import strategies as st

Kind = Literal["flip", "set", "cut", "end", "insert", "repeat", "swap"]


@dataclass(frozen=True)
class Damage:
    """One damage to the bytes of a file."""

    kind: Kind
    place: float = 0.0
    """Where, as a fraction of the file."""
    other: float = 0.0
    """The other place, where there are two."""
    block: bytes = b"\0"
    """Bytes that are written; of bytes that are moved only their number counts."""

    def apply(self, data: bytes) -> bytes:
        """Return the damaged bytes."""
        start, other = (round(place * len(data)) for place in (self.place, self.other))
        size = len(self.block)
        found = data
        match self.kind:
            case "flip":
                bit = 1 << (self.block[0] % 8)
                flipped = bytes(byte ^ bit for byte in data[start : start + 1])
                found = data[:start] + flipped + data[start + 1 :]
            case "set":
                found = data[:start] + self.block + data[start + size :]
            case "cut":
                found = data[: min(start, other)] + data[max(start, other) :]
            case "end":
                found = data[:start]
            case "insert":
                found = data[:start] + self.block + data[start:]
            case "repeat":
                found = data[:other] + data[start : start + size] + data[other:]
            case "swap":
                first, second = min(start, other), max(start, other, min(start, other) + size)
                one, two = data[first : first + size], data[second : second + size]
                between = data[first + size : second]
                found = data[:first] + two + between + one + data[second + size :]
        return found


def damages(largest_block: int = 64) -> st.SearchStrategy[tuple[Damage, ...]]:
    """Return a strategy of a few damages; many are near the beginning, where headers are."""
    place = st.floats(0, 1) | st.floats(0, 0.02)
    block = st.binary(min_size=1, max_size=largest_block)
    damage = st.builds(Damage, st.sampled_from(get_args(Kind)), place, place, block)
    return st.lists(damage, min_size=1, max_size=4).map(tuple)


def damaged(data: bytes, changes: tuple[Damage, ...]) -> bytes:
    """Return bytes after some damages."""
    for change in changes:
        data = change.apply(data)
    return data
