"""The file of results: CSV, one row for each fit."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any

from sswim.bench.accuracy import Row

COLUMNS = tuple(field.name for field in fields(Row))
_KINDS: dict[Any, type] = {"str": str, "int": int, "float": float}


def read_results(path: Path) -> list[Row]:
    """The rows of a file, which must be whole."""
    if not path.is_file():
        raise FileNotFoundError(f"{str(path)!r} is not a file of results; it is not there.")
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        _require_columns(next(lines, COLUMNS), path)
        rows = []
        for line in lines:
            try:
                cells = zip(fields(Row), line, strict=True)
                rows.append(Row(*(_KINDS[field.type](cell) for field, cell in cells)))
            except ValueError as error:
                raise ValueError(
                    f"Line {lines.line_num} of {str(path)!r} is not a result: {error}."
                ) from error
    return rows


def append_results(path: Path, rows: Iterable[Row]) -> None:
    """Add rows, and the line of columns to a file that is new; they are on disk on return."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    with path.open("ab") as file:
        if file.tell() == 0:
            writer.writerow(COLUMNS)
        writer.writerows(astuple(row) for row in rows)
        file.write(text.getvalue().encode())  # at once, so that an interruption tears no line
        file.flush()
        os.fsync(file.fileno())


def _require_columns(found: Sequence[str], path: Path) -> None:
    if tuple(found) == COLUMNS:
        return
    missing = [name for name in COLUMNS if name not in found]
    others = [name for name in found if name not in COLUMNS]
    differences = [
        f"{what} {', '.join(names)}"
        for what, names in (("It lacks", missing), ("It has also", others))
        if names
    ]
    raise ValueError(
        f"A file of results must begin with the columns {','.join(COLUMNS)}. {str(path)!r} does "
        f"not, so that it may be another version's. "
        f"{'; '.join(differences) or 'Their order is another'}. Name another file (--out)."
    )
