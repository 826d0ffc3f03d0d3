"""CSV files with a line for each of some dataclasses of one kind."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar

from sswim.base.files import atomic_write

RowT = TypeVar("RowT")

_KINDS: dict[Any, type] = {"str": str, "int": int, "float": float}


def write_rows(path: Path, rows: Iterable[RowT], kind: type[RowT]) -> None:
    """Write a file of rows, in place of one that is there."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(_lines(rows, columns(kind)))


def append_rows(path: Path, rows: Iterable[RowT], kind: type[RowT]) -> None:
    """Add rows, and the line of columns to a file that is new; they are on disk on return."""
    with path.open("ab") as file:
        header = columns(kind) if file.tell() == 0 else ()
        file.write(_lines(rows, header))  # at once, so that an interruption tears no line
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path, kind: type[RowT]) -> list[RowT]:
    """The rows of a file, which must be whole; none if it is not there."""
    if not path.exists():
        return []
    names, rows = columns(kind), []
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        _require_columns(next(lines, names), names, path)
        for line in lines:
            try:
                cells = zip(fields(kind), line, strict=True)  # type: ignore[arg-type]
                rows.append(kind(*(_KINDS[field.type](cell) for field, cell in cells)))
            except ValueError as error:
                raise ValueError(
                    f"Line {lines.line_num} of {str(path)!r} is not a result: {error}."
                ) from error
    return rows


def columns(kind: Any) -> tuple[str, ...]:
    """The names of the fields."""
    return tuple(field.name for field in fields(kind))


def _lines(rows: Iterable[Any], header: Sequence[str]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(header)
    writer.writerows(astuple(row) for row in rows)
    return text.getvalue().encode()


def _require_columns(found: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    if list(found) == list(wanted):
        return
    missing = [name for name in wanted if name not in found]
    others = [name for name in found if name not in wanted]
    differences = [
        f"{what} {', '.join(names)}"
        for what, names in (("It lacks", missing), ("It has also", others))
        if names
    ]
    raise ValueError(
        f"A file of results must begin with the columns {','.join(wanted)}. {str(path)!r} does "
        f"not, so that it may be another version's. "
        f"{'; '.join(differences) or 'Their order is another'}. Move it away, or name another "
        "place (--out)."
    )
