"""Rows from any Python iterable of chunks that can be restarted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sswim.base.validation import require_restartable
from sswim.distributed.share import ALL_ROWS, Share
from sswim.rows.array_source import as_chunk
from sswim.rows.source import Chunk, Source

ROWS_OF_A_PROCESS = 2**48
"""Row numbers reserved for each process where each brings its own rows."""


class IterableSource(Source):
    """Chunks ``(X, y)`` or ``(X, y, weight)`` of an iterable: a list, or a class with ``__iter__``.

    The iterable is restarted for every pass over the rows and must give the same rows each time.
    """

    def __init__(self, chunks: Iterable[tuple[Any, ...]], *, dealt: bool = False) -> None:
        """Wrap an iterable.

        Args:
            chunks: Tuples of input, target and optionally weight arrays.
            dealt: True if every process has an iterable with its own rows; False if all have the
                same iterable, of which each process takes every ``size``-th chunk.
        """
        require_restartable(chunks)
        self._chunks, self._dealt = chunks, dealt
        for _, y, *_ in chunks:
            self.flat_targets = y.ndim == 1
            break

    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        """Iterate over the chunks of a share."""
        first = share.rank * ROWS_OF_A_PROCESS if self._dealt else 0
        for number, arrays in enumerate(self._chunks):
            chunk = as_chunk(first, *arrays)
            first += len(chunk)
            if self._dealt or number % share.size == share.rank:
                yield chunk
