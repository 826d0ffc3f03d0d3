"""Chunks of rows cut into smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sswim.base.record import chunks
from sswim.base.validation import require_restartable
from sswim.rows.rows import Rows


@dataclass(frozen=True)
class SmallerChunks:
    """Chunks cut into smaller ones, anew in every pass over them."""

    rows: Iterable[Rows]
    """Chunks in an iterable that can be restarted."""
    size_of: Callable[[Rows], int]
    """Returns the largest number of rows that a chunk is cut into."""

    def __post_init__(self) -> None:
        require_restartable(self.rows)

    def __iter__(self) -> Iterator[Rows]:
        for chunk in self.rows:
            if len(chunk) == 0:
                yield chunk
            else:
                yield from chunks(chunk, self.size_of(chunk), chunk.axis)
