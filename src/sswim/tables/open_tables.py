"""Tables in whatever form they are."""

from __future__ import annotations

from pathlib import Path

from sswim.tables.csv_tables import CsvTables
from sswim.tables.file_listing import table_files
from sswim.tables.parquet_tables import ParquetTables
from sswim.tables.table_io import read_table, table_suffix
from sswim.tables.table_parts import MemoryTables, Tables


def open_tables(path: str | Path) -> Tables:
    """A file, in the format its suffix names, or a folder of Parquet or of CSV files.

    Parquet and CSV are read as they are used; Arrow and Feather files are read now.
    """
    suffix = table_suffix(table_files(path)[0])
    if suffix == ".parquet":
        return ParquetTables.open(path)
    if suffix.startswith(".csv"):
        return CsvTables.open(path)
    return MemoryTables(read_table(path), str(path))
