"""Opening a table by its path, in any format.

A random sample of the rows of a table that need not fit in memory.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sswim.distributed.processes import ALONE, Processes, run_with_heartbeat
from sswim.rows.summary import smallest_keys
from sswim.tables.csv_dialect import AS_FOUND, CsvOptions, is_csv, text_size
from sswim.tables.csv_file import read_csv
from sswim.tables.csv_table import CsvTable
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.schema import Schema
from sswim.tables.table import ChunkedTable, MemoryTable, table_files
from sswim.tables.table_io import TableError, read_table, require_file, table_suffix
from sswim.tables.table_rows import KEEP_ALL, LeftOut, TargetedRows, read_rows


def open_table(
    path: str | Path, memory: int | None = None, csv: CsvOptions = AS_FOUND
) -> ChunkedTable:
    """Open a file in the format that its suffix names, or a folder of Parquet or CSV files.

    Args:
        path: The file or folder.
        memory: Size in bytes up to which a Parquet or CSV file is read whole now. Larger files and
            folders are read in chunks, as is everything by default. Arrow and Feather files are
            always read whole.
        csv: How CSV files are read.
    """
    return read_small_table(path, memory, csv) or _open_chunked(path, csv)


def read_small_table(
    path: str | Path, memory: int | None, csv: CsvOptions = AS_FOUND
) -> MemoryTable | None:
    """Read a file whole if it takes at most ``memory`` bytes in memory; otherwise return None.

    The result is None for folders, and if ``memory`` is None.
    """
    if memory is None or os.path.isdir(path):
        return None
    if is_csv(path):
        require_file(path)
        if text_size(path) > memory:
            return None
        found = read_csv(path, csv)
        return MemoryTable(found.table, str(path), found.notes)
    table = _open_chunked(path, csv)
    if table.nbytes > memory:
        return None
    return table if isinstance(table, MemoryTable) else MemoryTable(read_table(path), str(path))


def _open_chunked(path: str | Path, csv: CsvOptions) -> ChunkedTable:
    first = table_files(path)[0]
    if table_suffix(first) == ".parquet":
        return ParquetTable.open(path)
    if is_csv(first):
        return CsvTable.open(path, csv)
    return MemoryTable(read_table(path), str(path))


@dataclass(frozen=True)
class TableSample:
    """A random sample of the usable rows of a table."""

    rows: TargetedRows
    """The sample, in the order of the table."""
    n_rows: int
    """Number of usable rows of the table."""
    n_left_out: int
    """Number of rows that were left out because values are missing."""
    notes: tuple[str, ...] = ()
    """What the user may want to know about how the table is read."""


def sample_table(
    schema: Schema,
    path: str | Path,
    size: int,
    *,
    random_state: int = 0,
    left_out: LeftOut = KEEP_ALL,
    processes: Processes = ALONE,
    memory: int | None = None,
    csv: CsvOptions = AS_FOUND,
) -> TableSample:
    """Draw a random sample of the usable rows of a table; it does not depend on the processes.

    Args:
        schema: How the columns of the table become numbers.
        path: A file, or a folder of Parquet or CSV files.
        size: Largest number of rows; smaller tables are returned whole.
        random_state: Seed of the sample.
        left_out: Which rows are left out because values are missing.
        processes: The processes that call this together; each reads its share of the rows.
        memory: Size in bytes up to which a file is read whole; None to read everything in chunks.
        csv: How CSV files are read.
    """
    sample: list[TargetedRows] = []
    notes: list[str] = []
    n_rows = n_left_out = 0
    target = schema.require_target()

    def read() -> Generator[None, None, None]:
        nonlocal n_rows, n_left_out
        table = open_table(path, memory, csv.for_model(schema.text_names))
        notes[:] = table.notes
        for rows in read_rows(table, schema.used, target, left_out, processes.share):
            n_rows, n_left_out = n_rows + len(rows.numbers), n_left_out + rows.n_left_out
            sample[:] = [_sample_rows([*sample, rows], size, random_state)]
            yield

    run_with_heartbeat(processes, read())
    every = [rows for each in processes.all_gather(sample) for rows in each if len(rows.numbers)]
    if not every:
        raise TableError(
            "At least one row must have a value in each column that is used. Got none such in "
            f"{str(path)!r}."
        )
    rows = _sample_rows(every, size, random_state)
    counts = processes.all_gather((n_rows, n_left_out))
    n_rows, n_left_out = (sum(each) for each in zip(*counts, strict=True))
    return TableSample(rows, n_rows, n_left_out, tuple(notes))


def _sample_rows(parts: Sequence[TargetedRows], size: int, random_state: int) -> TargetedRows:
    """Return the rows of a few parts whose numbers have the smallest keys, in order."""
    numbers = np.concatenate([part.numbers for part in parts])
    chosen = smallest_keys(numbers, size, random_state)
    chosen = chosen[np.argsort(numbers[chosen])]  # several processes may have read them
    table = pa.concat_tables([part.table for part in parts], promote_options="permissive")
    targets = np.concatenate([part.targets for part in parts])
    return TargetedRows(numbers[chosen], table.take(chosen), targets[chosen], 0, "")
