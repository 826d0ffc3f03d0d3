"""Shared by the scripts: result files in CSV, to which each measurement is appended at once."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a file; an empty list if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row with the current date to a file; a new file gets a header first."""
    dated = {"date": datetime.now(UTC).isoformat(timespec="seconds"), **row}
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dated), lineterminator="\n")
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow(dated)
