"""The files that make up a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath

from pyarrow.fs import FileSelector, LocalFileSystem

from sswim.tables.table_io import TableError, quote_names, require_file

FORMATS = (
    (".parquet",),
    (".csv", ".csv.gz", ".tsv", ".tsv.gz"),
    (".txt", ".txt.gz"),  # among other files a text is rather about them
)
"""Suffixes that may be mixed in one folder."""


def table_files(path: str | Path) -> list[str]:
    """Return the file itself, or all files in a folder and its subfolders, sorted by name.

    Files of a folder must have the same format. Files and folders whose name begins with a dot or
    an underscore are ignored.
    """
    if not os.path.isdir(path):
        require_file(path)
        return [str(path)]
    # Path gives every file the same spelling everywhere.
    entries = LocalFileSystem().get_file_info(FileSelector(str(Path(path)), recursive=True))
    files = sorted(entry.path for entry in entries if entry.is_file and _visible(entry.path, path))
    if not any(_all_end_in(files, suffixes) for suffixes in FORMATS):
        names = [os.path.relpath(file, path) for file in files]
        raise TableError(
            "A folder that is a table must have files that end in .parquet, or in .csv or .tsv, or "
            "in .txt (text files also with .gz), and no others. Got "
            f"{quote_names(names) if names else 'none'} in {str(path)!r}; begin the names of other "
            "files with an underscore."
        )
    return files


def require_same_names(
    names: Sequence[str], file: str, first_names: Sequence[str], first: str
) -> None:
    """Raise unless a file has the same columns as the table's first file, in any order."""
    for have, lack, has, lacks in (
        (names, first_names, file, first),
        (first_names, names, first, file),
    ):
        if more := [name for name in have if name not in lack]:
            raise TableError(
                "All files of a table must have the same columns. "
                f"Got {quote_names(more)} in {has!r} and not in {lacks!r}."
            )


def _visible(file: str, folder: str | Path) -> bool:
    return not any(part.startswith((".", "_")) for part in PurePath(file).relative_to(folder).parts)


def _all_end_in(files: Sequence[str], suffixes: tuple[str, ...]) -> bool:
    return bool(files) and all(file.lower().endswith(suffixes) for file in files)
