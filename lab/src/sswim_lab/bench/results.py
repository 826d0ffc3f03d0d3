"""The results file: CSV with one row for each fit."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.dataclass_csv import append_rows, columns, read_rows

COLUMNS = columns(Row)


def read_results(path: Path) -> list[Row]:
    """Read the rows of a results file; raise FileNotFoundError if there is none."""
    if not path.is_file():
        raise FileNotFoundError(f"The results file {str(path)!r} does not exist.")
    return read_rows(path, Row)


def append_results(path: Path, rows: Iterable[Row]) -> None:
    """Append rows to a results file, after a header if it is new; they are on disk on return."""
    append_rows(path, rows, Row)
