"""A table that is read in chunks of rows, so that it need not fit in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sswim.distributed.share import ALL_ROWS, Share

CHUNK_ROWS = 65_536
"""Maximum number of rows in a chunk, large enough that the cost per chunk does not matter."""

CHUNK_BYTES = 2**26
"""Maximum size of a chunk as float64 numbers, so that chunks of wide tables have fewer rows."""


@dataclass(frozen=True)
class TableChunk:
    """Consecutive rows of a table."""

    first: int
    """Number of the chunk's first row in the whole table, counted from 0."""
    table: pa.Table
    file: str
    """File that the rows come from, or the name of a table in memory."""


@runtime_checkable
class ChunkedTable(Protocol):
    """A table of which one chunk at a time is in memory."""

    @property
    def name(self) -> str:
        """Name of the table in messages."""

    @property
    def schema(self) -> pa.Schema:
        """All columns. A chunk may have another type of the same kind."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def nbytes(self) -> int:
        """Approximate size of the whole table in memory."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user may want to know about how the table is read."""

    def chunks(self, columns: Sequence[str], share: Share = ALL_ROWS) -> Iterator[TableChunk]:
        """Read some columns of a share's rows, in order and from the start at every call."""


def chunk_rows(n_columns: int) -> int:
    """Return how many rows a chunk has if every row holds ``n_columns`` numbers."""
    return max(1, min(CHUNK_ROWS, CHUNK_BYTES // (8 * max(1, n_columns))))


def split_rows(table: pa.Table, n_rows: int) -> Iterator[pa.Table]:
    """Cut a table into pieces of ``n_rows`` rows; the last piece may have fewer."""
    return (table.slice(start, n_rows) for start in range(0, table.num_rows, n_rows))


def rechunk(batches: Iterable[pa.RecordBatch], n_rows: int) -> Iterator[pa.Table]:
    """Cut and join batches of any size into tables of ``n_rows`` rows; the last may have fewer."""
    pending: list[pa.RecordBatch] = []
    room = n_rows
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, room)
            pending.append(piece)
            start += piece.num_rows
            room -= piece.num_rows
            if not room:
                yield pa.Table.from_batches(pending)
                pending, room = [], n_rows
    if pending:
        yield pa.Table.from_batches(pending)
