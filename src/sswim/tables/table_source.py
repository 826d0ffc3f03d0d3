"""A source of the rows of a table, which need not fit in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sswim.distributed.processes import ALONE, Processes
from sswim.distributed.share import ALL_ROWS, Share
from sswim.rows.source import Chunk, Source
from sswim.tables.chunked_table import ChunkedTable, chunk_rows, split_rows
from sswim.tables.memory_table import MemoryTable
from sswim.tables.missing_values import complete_rows, keep_rows, select_complete
from sswim.tables.open_table import open_table, read_small_table
from sswim.tables.schema import Schema
from sswim.tables.schema_learning import learn_schema
from sswim.tables.table_io import TableError, require_columns
from sswim.tables.unusable_rows import require_usable


class TableSource(Source):
    """The rows of a table as numbers.

    Args:
        table: The table.
        schema: How its columns become numbers.
        drop_missing: Whether to leave out rows with missing values; otherwise they are an error.
            The other rows keep their numbers.
        n_left_out: Number of rows that were left out when the table was opened.
    """

    def __init__(
        self,
        table: ChunkedTable,
        schema: Schema,
        drop_missing: bool = False,
        n_left_out: int = 0,
    ) -> None:
        self.table = table
        self.schema = schema
        self.drop_missing = drop_missing
        self.n_left_out = n_left_out
        self.names = tuple(schema.feature_names)
        self.table_schema = schema.to_dict()
        self._columns = [*(column.name for column in schema.columns), schema.target]
        require_columns(table.schema, self._columns)

    def facts(self) -> dict[str, Any]:
        """Return the columns and the size of the table."""
        size = {"rows": self.table.n_rows, "bytes": self.table.nbytes}
        return {**self.schema.to_dict(), "drop_missing": self.drop_missing, **size}

    def chunks(self, share: Share = ALL_ROWS) -> Iterator[Chunk]:
        """Read the rows of a share, in smaller chunks where categories make the matrix wide."""
        return (chunk for chunk, _ in self.counted_chunks(share) if chunk is not None)

    def counted_chunks(self, share: Share = ALL_ROWS) -> Iterator[tuple[Chunk | None, int]]:
        """Read the rows of a share, and count the rows left out of each chunk.

        A chunk without any complete row is None.
        """
        n_rows = chunk_rows(len(self.schema.feature_names))
        for chunk in self.table.chunks(self._columns, share):
            first = chunk.first
            for piece in split_rows(chunk.table, n_rows):
                encoded = self._encode(first, piece, chunk.file)
                yield encoded, piece.num_rows - (0 if encoded is None else len(encoded))
                first += piece.num_rows

    def _encode(self, first: int, table: pa.Table, file: str) -> Chunk | None:
        """Return some rows of a file as numbers, or None if none of them is kept."""
        numbers = np.arange(first, first + table.num_rows)
        if self.drop_missing:
            kept = complete_rows(table, self._columns)
            numbers, table = numbers[kept], keep_rows(table, kept)
            if not len(numbers):
                return None
        try:
            return Chunk(numbers, self.schema.encode(table), self.schema.targets(table)[:, None])
        except TableError:
            require_usable(numbers, table.select(self._columns), file)
            raise


def open_source(
    path: str | Path,
    target: str,
    *,
    drop: Collection[str] = (),
    drop_missing: bool = False,
    memory: int | None = None,
    processes: Processes = ALONE,
) -> TableSource:
    """Open a table as a source, and learn its columns.

    Args:
        path: A file, or a folder of Parquet or CSV files.
        target: Column to predict.
        drop: Columns to ignore. All others are inputs.
        drop_missing: Whether to leave out rows with missing values; otherwise they are an error.
        memory: Size in bytes up to which a file is read whole. Its incomplete rows are then left
            out at once, and ``n_left_out`` counts them. By default all is read in chunks.
        processes: Processes that call this together, with the same arguments.
    """
    given = {"target": target, "drop": sorted(drop), "drop_missing": drop_missing}
    processes.require_same("command", {**given, "memory": memory})
    with processes.shared_errors():
        small = read_small_table(path, memory)
        if small is not None:
            return _source_of_small(small, target, drop, drop_missing)
        table = open_table(path)
    return learn_source(table, target, drop, drop_missing, processes)


def learn_source(
    table: ChunkedTable,
    target: str,
    drop: Collection[str] = (),
    drop_missing: bool = False,
    processes: Processes = ALONE,
) -> TableSource:
    """Return a source whose inputs are all columns except the target and the dropped ones.

    All processes learn the columns together.
    """
    share = processes.share
    schema = learn_schema(table, target, drop, share, processes.all_gather, drop_missing)
    return TableSource(table, schema, drop_missing)


def _source_of_small(
    table: MemoryTable, target: str, drop: Collection[str], drop_missing: bool
) -> TableSource:
    """Return a source of a table in memory, whose incomplete rows are left out at once."""
    schema = Schema.learn(table.table, target, drop)
    names = [*(column.name for column in schema.columns), target]
    rows, n_left_out = select_complete(table.table, names, drop_missing=drop_missing)
    if n_left_out:
        schema = Schema.learn(rows, target, drop)
    return TableSource(MemoryTable(rows, table.name), schema, n_left_out=n_left_out)
