"""Files of results: CSV, one row for each measurement, added as soon as it is there."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file; none if it is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Add a row and its date, and the line of columns to a file that is new."""
    dated = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **row}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dated), lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow(dated)
