"""Output files and folders: which of them a command may write, and what happens if it cannot.

Call the checks before a long job, so that nothing is lost at its end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from sswim.base.errors import UserError
from sswim.base.files import require_folder, require_regular, resolve_link

StrPath = str | os.PathLike[str]

HEADER_BYTES = 64
"""Bytes at the beginning of a file in which the mark of its kind is looked for."""


class OutputError(UserError):
    """An output that must not, or cannot, be written."""


def check_output_file(path: StrPath, inputs: Iterable[StrPath] = ()) -> None:
    """Raise unless a file can be written, or replaced, without loss of an input.

    A symbolic link stands for the file that it names.

    Args:
        path: The file to write.
        inputs: Files and folders that the command reads.
    """
    target = resolve_link(path)
    require_folder(target)
    require_regular(target)
    _require_no_input(path, target, inputs)
    # root may write any file, but one that nobody may write is meant to stay.
    if target.exists() and not (os.access(target, os.W_OK) and target.stat().st_mode & 0o222):
        raise OutputError(
            f"An output must be a file that may be written. Got {os.fspath(path)!r}, which is "
            "read-only; choose another, or change its permissions."
        )
    _require_writable_folder(target.parent, path)


def check_output_folder(path: StrPath, inputs: Iterable[StrPath] = ()) -> None:
    """Raise unless files can be written into a folder, which need not exist.

    Args:
        path: The folder to write into.
        inputs: Files and folders that the command reads.
    """
    target = resolve_link(path)
    if target.exists() and not target.is_dir():
        raise OutputError(
            f"The output must be a folder. Got {os.fspath(path)!r}, which is none; choose another."
        )
    _require_no_input(path, target, inputs)
    existing = next(each for each in (target, *target.parents) if each.exists())
    _require_writable_folder(existing, path)


def require_replaceable(path: StrPath, mark: bytes, noun: str) -> None:
    """Raise if a file exists, is not empty, and is of another kind than the one to be written.

    Args:
        path: The file to write.
        mark: Bytes that files of this kind have near their beginning.
        noun: Name of this kind, such as "sswim model".
    """
    target = resolve_link(path)
    if not target.exists() or not target.stat().st_size:
        return
    with target.open("rb") as file:
        known = mark in file.read(HEADER_BYTES)
    if not known:
        raise OutputError(
            f"An existing file is replaced only if it is a {noun}. Got {os.fspath(path)!r}, which "
            "is not; choose another name, or give --force to replace it."
        )


def save_somewhere(save: Callable[[Path], object], path: StrPath) -> None:
    """Save a result that took long to a file, or, if that fails, to another place.

    Args:
        save: Writes the result to a path.
        path: Where the result should be.

    Raises:
        OutputError: The result is not in its place; the message says where it is, if anywhere.
    """
    try:
        save(Path(path))
    except OSError as error:
        name = os.fspath(path)
        problem = f"The result could not be written to {name!r}: {error}."
        place = _save_elsewhere(save, Path(path).name)
        if place is None:
            raise OutputError(f"{problem} No other folder could take it, so it is lost.") from error
        raise OutputError(f"{problem} It was written to {str(place)!r}; move it.") from error


def _save_elsewhere(save: Callable[[Path], object], name: str) -> Path | None:
    """Save to the first folder that takes it: of temporary files, home, or the current one."""
    for parent in (tempfile.gettempdir, Path.home, Path.cwd):
        folder = None
        try:
            folder = Path(tempfile.mkdtemp(prefix="sswim-", dir=parent()))
            save(folder / name)
        except (OSError, RuntimeError):  # RuntimeError: there is no home
            if folder is not None:
                folder.rmdir()
        else:
            return folder / name
    return None


def _require_no_input(path: StrPath, target: Path, inputs: Iterable[StrPath]) -> None:
    target = Path(os.path.realpath(target))  # so that its parents are those of the file
    for each in inputs:
        given = Path(each)
        if not given.exists():
            continue  # reading it raises a better error
        places = (target, *target.parents) if given.is_dir() else (target,)
        if any(place.exists() and place.samefile(given) for place in places):
            where = "is in" if given.is_dir() and not _is_same(target, given) else "is"
            raise OutputError(
                f"An output must not replace an input. Got {os.fspath(path)!r}, which {where} "
                f"{os.fspath(each)!r}; choose another."
            )


def _is_same(target: Path, given: Path) -> bool:
    return target.exists() and target.samefile(given)


def _require_writable_folder(folder: Path, path: StrPath) -> None:
    """Raise unless a file can be made in a folder; only trying tells, above all for root."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OutputError(
            f"An output must be in a folder that may be written. Got {os.fspath(path)!r}, and no "
            f"file can be made in {str(folder)!r} ({error.strerror}); choose another."
        ) from error
