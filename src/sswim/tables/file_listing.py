"""The files of a table that is in several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath

from pyarrow.fs import FileSelector, LocalFileSystem

from sswim.tables.table_io import TableError, quote_names, require_file

FORMATS = ((".parquet",), (".csv", ".csv.gz"))
"""The suffixes that may be together in a folder."""


def table_files(path: str | Path) -> list[str]:
    """The file itself, or all files in a folder and the folders in it, which must be of one format.

    In the order of their names; files and folders whose name begins with a dot or an underscore
    are no part of the table.
    """
    if not os.path.isdir(path):
        require_file(path)
        return [str(path)]
    # By way of Path, for one and the same spelling of every file everywhere.
    found = LocalFileSystem().get_file_info(FileSelector(str(Path(path)), recursive=True))
    files = sorted(info.path for info in found if info.is_file and _visible(info.path, path))
    if not any(_all_end_in(files, suffixes) for suffixes in FORMATS):
        names = [os.path.relpath(file, path) for file in files]
        raise TableError(
            "A folder that is a table must have files that end in .parquet, or in .csv or .csv.gz, "
            f"and no others. Got {quote_names(names) if names else 'none'} in {str(path)!r}; begin the "
            "names of other files with an underscore."
        )
    return files


def require_same_names(
    names: Sequence[str], file: str, first_names: Sequence[str], first: str
) -> None:
    """Refuse a file that has other columns than the first one of the table, in whatever order."""
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
