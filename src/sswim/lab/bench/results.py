"""The file of results: CSV, one row for each fit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sswim.lab.bench.accuracy import Row
from sswim.lab.bench.dataclass_csv import append_rows, columns, read_rows

COLUMNS = columns(Row)


def read_results(path: Path) -> list[Row]:
    """The rows of a file, which must be whole."""
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is not a file of results; it is not there.")
    return read_rows(path, Row)


def append_results(path: Path, rows: Iterable[Row]) -> None:
    """Add rows, and the line of columns to a file that is new; they are on disk on return."""
    append_rows(path, rows, Row)
