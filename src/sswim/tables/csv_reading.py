"""Reading a CSV file that fits in memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sswim.tables.csv_file import CsvFile
from sswim.tables.csv_options import AS_FOUND, CsvOptions
from sswim.tables.csv_scan import CsvScan
from sswim.tables.table_errors import require_shape


@dataclass(frozen=True)
class CsvRows:
    """The rows of a CSV file."""

    table: pa.Table
    notes: tuple[str, ...]
    """What the user should know about how the file was read, one line each."""


def read_csv(path: str | Path, options: CsvOptions = AS_FOUND) -> CsvRows:
    """Read a CSV file whole."""
    file = CsvFile.open(path, options)
    table = file.read(file.text_types(options))
    require_shape(table.num_rows, table.num_columns, path)
    scan = CsvScan()
    scan.add(file, [table])
    left_out = scan.left_out(file, options)
    return CsvRows(table.drop_columns([*left_out]), (*file.notes, *scan.notes(file, options)))
