"""A table in parts, so that it need not fit in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from sswim.distributed.share import WHOLE, Share

PART_ROWS = 65_536
"""The most rows of a part: enough that what is done once per part does not count."""

PART_BYTES = 2**26
"""The most that a part may take in numbers, so that a wide table has fewer rows in a part."""


@dataclass(frozen=True)
class Part:
    """Rows of a table that follow each other."""

    first: int
    """The number of its first row among all of the table, from 0."""
    table: pa.Table
    place: str
    """The file they come from."""


@runtime_checkable
class Tables(Protocol):
    """A table in parts, of which one at a time is in memory."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def schema(self) -> pa.Schema:
        """All columns. A part may have another type of the same kind."""

    @property
    def n_rows(self) -> int | None:
        """Of all parts; None if nobody knows without reading them."""

    @property
    def nbytes(self) -> int:
        """About what all of it takes in memory."""

    def parts(self, columns: Sequence[str], share: Share = WHOLE) -> Iterator[Part]:
        """Some columns of the rows of a share, from the first to the last, anew at every call."""


@dataclass(frozen=True)
class MemoryTables:
    """A table that is in memory."""

    table: pa.Table
    name: str

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return self.table.schema

    @property
    def n_rows(self) -> int:
        """Of all parts."""
        return self.table.num_rows

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return self.table.nbytes

    def parts(self, columns: Sequence[str], share: Share = WHOLE) -> Iterator[Part]:
        """Some columns of the rows of a share, which follow each other."""
        first, stop = share.span(self.n_rows)
        rows = self.table.select(columns).slice(first, stop - first)
        for table in pieces(rows, part_rows(len(columns))):
            yield Part(first, table, self.name)
            first += table.num_rows


def part_rows(n_columns: int) -> int:
    """How many rows of so many numbers to have in memory together."""
    return max(1, min(PART_ROWS, PART_BYTES // (8 * max(1, n_columns))))


def pieces(table: pa.Table, n_rows: int) -> Iterator[pa.Table]:
    """Cut a table into so many rows each, but for the last."""
    return (table.slice(start, n_rows) for start in range(0, table.num_rows, n_rows))


def gathered(batches: Iterable[pa.RecordBatch], n_rows: int) -> Iterator[pa.Table]:
    """Cut and join batches of any size into so many rows each, but for the last."""
    waiting: list[pa.RecordBatch] = []
    room = n_rows
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, room)
            waiting.append(piece)
            start += piece.num_rows
            room -= piece.num_rows
            if not room:
                yield pa.Table.from_batches(waiting)
                waiting, room = [], n_rows
    if waiting:
        yield pa.Table.from_batches(waiting)
