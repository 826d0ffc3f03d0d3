"""A table that is read in chunks of rows, so that it need not fit in memory.

A table in memory, with the interface of one that is read in chunks.

The files that make up a table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Protocol, runtime_checkable

import pyarrow as pa
from pyarrow.fs import FileSelector, LocalFileSystem

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.tables.table_io import TableError, quote_names, require_file

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


FORMATS = (
    (".parquet",),
    (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    (".txt", ".txt.gz"),  # among other files a text is rather about them
)
"""Suffixes that may be mixed in one folder."""


def table_files(path: str | Path) -> list[str]:
    """Return the file itself, or all files in a folder and its subfolders, sorted by name.

    Files of a folder must have the same format. Files and folders whose name begins with a dot or
    an underscore are ignored.
    """
    if not os.path.isdir(path):
        require_file(path)
        return [str(path)]
    # Path gives every file the same spelling everywhere.
    entries = LocalFileSystem().get_file_info(FileSelector(str(Path(path)), recursive=True))
    files = sorted(entry.path for entry in entries if entry.is_file and _visible(entry.path, path))
    if not any(_all_end_in(files, suffixes) for suffixes in FORMATS):
        names = [os.path.relpath(file, path) for file in files]
        raise TableError(
            "A folder that is a table must have files that end in .parquet, or in .csv or .tsv, or "
            "in .txt (text files also with .gz), and no others. Got "
            f"{quote_names(names) if names else 'none'} in {str(path)!r}; begin the names of other "
            "files with an underscore."
        )
    return files


def require_same_names(
    names: Sequence[str], file: str, first_names: Sequence[str], first: str
) -> None:
    """Raise unless a file has the same columns as the table's first file, in any order."""
    for have, lack, has, lacks in (
        (names, first_names, file, first),
        (first_names, names, first, file),
    ):
        if more := [name for name in have if name not in lack]:
            raise TableError(
                "All files of a table must have the same columns. "
                f"Got {quote_names(more)} in {has!r} and not in {lacks!r}."
            )


def _visible(file: str, folder: str | Path) -> bool:
    return not any(part.startswith((".", "_")) for part in PurePath(file).relative_to(folder).parts)


def _all_end_in(files: Sequence[str], suffixes: tuple[str, ...]) -> bool:
    return bool(files) and all(file.lower().endswith(suffixes) for file in files)
