"""Opening a table by its path, in any format."""

from __future__ import annotations

import os
from pathlib import Path

from sswim.tables.chunked_table import ChunkedTable
from sswim.tables.csv_options import AS_FOUND, CsvOptions
from sswim.tables.csv_reading import read_csv
from sswim.tables.csv_table import CsvTable
from sswim.tables.csv_text import is_csv, text_size
from sswim.tables.file_listing import table_files
from sswim.tables.memory_table import MemoryTable
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.table_io import read_table, require_file, table_suffix


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
