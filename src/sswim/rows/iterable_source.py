"""Rows from any Python iterable of chunks that can be started again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sswim.base.validation import require_restartable
from sswim.distributed.share import WHOLE, Share
from sswim.rows.array_source import as_chunk
from sswim.rows.source import Chunk, Source

ROWS_OF_A_PROCESS = 2**48
"""Numbers that are set aside for each process, where each brings its own rows."""


class IterableSource(Source):
    """Chunks ``(X, y)`` or ``(X, y, weight)`` of an iterable: a list, or a class with ``__iter__``.

    It is started anew for every pass over the rows, and must give the same rows each time.
    """

    def __init__(self, chunks: Iterable[tuple[Any, ...]], *, dealt: bool = False) -> None:
        """Take an iterable.

        Args:
            chunks: Arrays of inputs, targets and, if rows count differently, weights.
            dealt: Whether each of several processes has an iterable with rows of its own; else
                all have the same iterable, and each takes its share of the chunks.
        """
        require_restartable(chunks)
        self._chunks, self._dealt = chunks, dealt
        for _, y, *_ in chunks:
            self.flat_targets = y.ndim == 1
            break

    def chunks(self, share: Share = WHOLE) -> Iterator[Chunk]:
        """The iterable's chunks, or every so many-th of them."""
        first = share.rank * ROWS_OF_A_PROCESS if self._dealt else 0
        for number, arrays in enumerate(self._chunks):
            chunk = as_chunk(first, *arrays)
            first += len(chunk)
            if self._dealt or number % share.size == share.rank:
                yield chunk
