"""A table in memory, with the interface of one that is read in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from sswim.distributed.share import ALL_ROWS, Share
from sswim.tables.chunked_table import TableChunk, chunk_rows, split_rows


@dataclass(frozen=True)
class MemoryTable:
    """A table in memory."""

    table: pa.Table
    name: str
    notes: tuple[str, ...] = ()
    """What the user should know about how the table was read, one line each."""

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return self.table.schema

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.num_rows

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return self.table.nbytes

    def chunks(self, columns: Sequence[str], share: Share = ALL_ROWS) -> Iterator[TableChunk]:
        """Yield some columns of a share's rows, which are consecutive."""
        first, stop = share.span(self.n_rows)
        rows = self.table.select(columns).slice(first, stop - first)
        for table in split_rows(rows, chunk_rows(len(columns))):
            yield TableChunk(first, table, self.name)
            first += table.num_rows
