"""Results in CSV files whose lines are dataclass instances, one column for each field.

A file may lack columns of fields that have a default, because an older version wrote it. The file
of the benchmark has one ``Row`` for each fit.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, astuple, fields
from pathlib import Path
from typing import Any, TypeVar

from sswim.base.validation import UserError
from sswim.files.output_files import atomic_write
from sswim_lab.bench.accuracy import Row

RowT = TypeVar("RowT")

_PARSERS: dict[Any, type] = {"str": str, "int": int, "float": float}
"""Functions that read a cell, by the annotation of its field."""


def write_rows(path: Path, rows: Iterable[RowT], row_type: type[RowT]) -> None:
    """Write rows to a file, replacing an existing one."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(_lines(rows, columns(row_type)))


def append_rows(path: Path, rows: Iterable[RowT], row_type: type[RowT]) -> None:
    """Append rows to a file, after a header if it is new; they are on disk on return.

    A file that lacks columns gets them first, filled with the defaults of their fields.
    """
    if _header(path) not in ((), columns(row_type)):
        write_rows(path, read_rows(path, row_type), row_type)
    with path.open("ab") as file:
        header = columns(row_type) if file.tell() == 0 else ()
        file.write(_lines(rows, header))  # one write, so that an interruption splits no line
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path, row_type: type[RowT]) -> list[RowT]:
    """Read the rows of a file; a missing file has none, a damaged line raises UserError."""
    header, rows = _header(path), []
    if not header:
        return []
    _require_columns(header, row_type, path)
    parsers = {field.name: _PARSERS[field.type] for field in fields(row_type)}  # type: ignore[arg-type]
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        next(lines)
        for line in lines:
            try:
                cells = zip(header, line, strict=True)
                rows.append(row_type(**{name: parsers[name](cell) for name, cell in cells}))
            except ValueError as error:
                raise UserError(
                    f"Line {lines.line_num} of {str(path)!r} is not a result: {error}."
                ) from error
    return rows


def columns(row_type: Any) -> tuple[str, ...]:
    """Return the names of the fields."""
    return tuple(field.name for field in fields(row_type))


def _lines(rows: Iterable[Any], header: Sequence[str]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(header)
    writer.writerows(astuple(row) for row in rows)
    return text.getvalue().encode()


def _header(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a file; a missing or empty one has none."""
    if not path.exists():
        return ()
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(next(csv.reader(file), ()))


def _require_columns(found: Sequence[str], row_type: Any, path: Path) -> None:
    wanted = columns(row_type)
    optional = {field.name for field in fields(row_type) if field.default is not MISSING}
    missing = [name for name in wanted if name not in found and name not in optional]
    if not missing and list(found) == [name for name in wanted if name in found]:
        return
    extra = [name for name in found if name not in wanted]
    differences = [
        f"{what}: {', '.join(names)}"
        for what, names in (("Missing", missing), ("Unexpected", extra))
        if names
    ]
    raise UserError(
        f"A results file must start with the columns {','.join(wanted)}. {str(path)!r} does not; "
        f"another version may have written it. {'; '.join(differences) or 'The order differs'}. "
        "Move it away, or give another path (--out)."
    )


def read_results(path: Path) -> list[Row]:
    """Read the rows of a results file; raise FileNotFoundError if there is none."""
    if not path.is_file():
        raise FileNotFoundError(f"The results file {str(path)!r} does not exist.")
    return read_rows(path, Row)


def append_results(path: Path, rows: Iterable[Row]) -> None:
    """Append rows to a results file, after a header if it is new; they are on disk on return."""
    append_rows(path, rows, Row)
