"""Shared by the scripts: result files of JSON lines, one for each measurement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read_lines(path: Path) -> list[Any]:
    """Return the values in a file; an empty list if it does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def append_line(path: Path, value: Any) -> None:
    """Append a value to a file, which is made if it does not exist."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")
