"""Names of the columns of a CSV file, which are unique and not empty whatever its header has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

from sswim.tables.csv_dialect import NUMBER
from sswim.tables.table_errors import TableError, quote_names

PANDAS_INDEX = "Unnamed: 0"
"""Name that pandas gives to an unnamed first column when it reads one."""


@dataclass(frozen=True)
class CsvNames:
    """Names of the columns, in the order of the file."""

    names: tuple[str, ...]
    unnamed: tuple[str, ...] = ()
    """New names of columns that have none in the file."""
    index: str | None = None
    """First column if its name lets one expect that it counts the rows."""
    notes: tuple[str, ...] = ()
    """What the user should know, one line each."""


def read_names(header: Sequence[str], path: str | Path, is_header: bool | None) -> CsvNames:
    """Return the names of columns.

    Args:
        header: Cells of the first record.
        path: The file, for messages.
        is_header: Whether the first record has the names; None if nobody said so. Numbers that do
            not increase are then an error, because they look like a row.
    """
    if is_header is False:
        return CsvNames(tuple(f"column {number}" for number in range(1, len(header) + 1)))
    notes = [] if is_header else _doubts(header, path)
    given = [name.strip() for name in header]
    if padded := [name for name, short in zip(header, given, strict=True) if name != short != ""]:
        notes.append(f"Blanks around the names {quote_names(padded)} are left out.")
    names: list[str] = []
    for number, name in enumerate(given, start=1):
        names.append(_unique(name, names, given) if name else _unique(f"column {number}", given))
        if name and names[-1] != name:
            notes.append(
                f"Column {number} is {name!r} too, as another one: it is called {names[-1]!r}."
            )
    unnamed = [new for new, name in zip(names, given, strict=True) if not name]
    index = names[0] if given[0] in ("", PANDAS_INDEX) else None
    return CsvNames(tuple(names), tuple(unnamed), index, tuple(notes))


def _unique(name: str, names: Collection[str], others: Collection[str] = ()) -> str:
    """Return a name that is not among ``names``; if it must change, not among others either."""
    if name not in names:
        return name
    return next(new for n in count(1) if (new := f"{name}.{n}") not in names and new not in others)


def _doubts(header: Sequence[str], path: str | Path) -> list[str]:
    """Return a note if all names are numbers; raise an error if they can hardly be names."""
    if not all(NUMBER.fullmatch(name.strip()) for name in header):
        return []
    numbers = [float(name.replace(",", ".")) for name in header]
    if len(numbers) > 1 and all(low < high for low, high in pairwise(numbers)):
        return [
            f"The names of all columns are numbers: {quote_names(header)}; give --no-header if the "
            "first line is a row."
        ]
    raise TableError(
        f"The first line must have the names of the columns. Got {quote_names(header)} in "
        f"{str(path)!r}; if this is a row, give --no-header, and if these are names, --header."
    )
