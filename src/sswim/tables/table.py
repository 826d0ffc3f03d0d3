"""Tables that are read in chunks of rows: their interface, their files and their errors."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath

import pyarrow as pa
from pyarrow.fs import FileSelector, LocalFileSystem

from sswim.base.validation import UserError
from sswim.distributed.processes import ALL_ROWS, Share


class TableError(UserError):
    """A table that cannot be used, for a reason that the user can correct."""


MAX_QUOTED = 5
"""Maximum number of names that a message quotes."""


def quote_names(names: Sequence[str]) -> str:
    """Return the first few names in quotes, for a message."""
    more = f" and {len(names) - MAX_QUOTED} more" if len(names) > MAX_QUOTED else ""
    return ", ".join(repr(name) for name in names[:MAX_QUOTED]) + more


@contextmanager
def reading(path: str | Path, expected: str = "") -> Iterator[None]:
    """Turn errors of the body into a TableError that names the file and the expected format."""
    try:
        yield
    except TableError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        hint = "; give another --encoding, or none" if isinstance(error, UnicodeDecodeError) else ""
        raise TableError(
            f"{str(path)!r} cannot be read as {expected or table_suffix(path)}: "
            f"{str(error).strip()}{hint}"
        ) from error


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
        for table in split_rows(rows, rows_per_chunk(len(columns))):
            yield TableChunk(first, table, self.name)
            first += table.num_rows

    def split(self) -> list[MemoryTable]:
        """Return the table, which is one."""
        return [self]

    def as_written(self) -> MemoryTable:
        """Return the table, which is as it was written."""
        return self


def rows_per_chunk(n_columns: int) -> int:
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


CSV_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")

SUFFIXES = (".parquet", *CSV_SUFFIXES, ".arrow", ".feather")

FOLDERS = (".parquet", CSV_SUFFIXES[:4], CSV_SUFFIXES[4:])
"""Suffixes that may be mixed in one folder: among other files a text is rather about them."""


def has_table_suffix(path: str | Path) -> bool:
    """Return whether a file name is that of a table."""
    return Path(path).name.lower().endswith(SUFFIXES)


def table_suffix(path: str | Path) -> str:
    """Return the suffix of a file name, in lower case; raise an error if it is not supported."""
    for suffix in SUFFIXES:
        if Path(path).name.lower().endswith(suffix):
            return suffix
    raise TableError(f"A table's file name must end in {', '.join(SUFFIXES)}. Got {str(path)!r}.")


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
    files = sorted(
        entry.path
        for entry in entries
        if entry.is_file
        and not any(
            part.startswith((".", "_")) for part in PurePath(entry.path).relative_to(path).parts
        )
    )
    fits = (all(file.lower().endswith(suffixes) for file in files) for suffixes in FOLDERS)
    if not files or not any(fits):
        names = [os.path.relpath(file, path) for file in files]
        raise TableError(
            "A folder that is a table must have files that end in .parquet, or in .csv or .tsv, or "
            "in .txt (text files also with .gz), and no others. Got "
            f"{quote_names(names) if names else 'none'} in {str(path)!r}; begin the names of other "
            "files with an underscore."
        )
    return files


def require_file(path: str | Path) -> None:
    """Raise unless a path is a file."""
    if not os.path.isfile(path):
        got = "a folder" if os.path.isdir(path) else "which cannot be found"
        raise TableError(f"A table must be a file that exists. Got {str(path)!r}, {got}.")


def require_shape(n_rows: int, n_columns: int, path: str | Path) -> None:
    """Raise an error if a table has no rows or no columns."""
    if 0 in (n_rows, n_columns):
        raise TableError(
            f"A table must have at least one row and one column. Got {n_rows} rows and "
            f"{n_columns} columns in {str(path)!r}."
        )


def require_columns(schema: pa.Schema, names: Collection[str]) -> None:
    """Raise unless a table has all of the columns."""
    present = schema.names
    known = set(present)
    if absent := [name for name in names if name not in known]:
        folded = {name.casefold(): name for name in present}
        matches = [difflib.get_close_matches(name.casefold(), folded) for name in absent]
        close = [folded[match] for match in chain.from_iterable(matches)]
        # Without a close name, all names: they show if a file has another separator.
        hint = f"close to it: {quote_names(close)}" if close else f"it has {quote_names(present)}"
        raise TableError(
            f"The table must have columns {quote_names(absent)}. Got none such; {hint}."
        )


def require_unique(names: Sequence[str], path: str | Path = "") -> None:
    """Raise an error if two columns have the same name."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        where = f" in {str(path)!r}" if path else ""
        raise TableError(
            f"Column names must be unique. Got several {quote_names(repeated)}{where}."
        )


def require_same_names(
    names: Sequence[str], file: str, first_names: Sequence[str], first: str
) -> None:
    """Raise unless a file has the same columns as the table's first file, in any order."""
    one, two = (file, names, {*names}), (first, first_names, {*first_names})
    for (has, given, _), (lacks, _, others) in ((one, two), (two, one)):
        if more := [name for name in given if name not in others]:
            raise TableError(
                "All files of a table must have the same columns. "
                f"Got {quote_names(more)} in {has!r} and not in {lacks!r}."
            )


def require_new_names(names: Collection[str], new: Sequence[str]) -> None:
    """Raise an error if names of new columns are taken."""
    if taken := [name for name in new if name in names]:
        raise TableError(
            f"New columns must have new names. Got {quote_names(taken)}, which the table already "
            "has; choose other names with --prefix."
        )
