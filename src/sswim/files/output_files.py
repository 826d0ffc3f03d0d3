"""Output files and folders: atomic writing, and checks that come before a long job.

A file is replaced only by a complete one. The checks say whether a file may be written at all, so
that nothing is lost at the end of the job.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sswim.base.validation import UserError

StrPath = str | os.PathLike[str]


class OutputError(UserError):
    """An output that must not, or cannot, be written."""


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder, and move it to ``path`` on success.

    A symbolic link stays, and the file that it names is replaced.

    On any failure (a full disk, an interruption) the temporary file is removed, and a file that
    already existed under ``path`` stays as it was.
    """
    target = resolve_link(path)
    require_folder(target)
    require_regular(target)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        # mkstemp makes private files; the final file gets the usual permissions.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def resolve_link(path: str | os.PathLike[str]) -> Path:
    """Return the file that a symbolic link names, which need not exist; any other path as it is."""
    given = Path(path)
    if not given.is_symlink():
        return given
    target = Path(os.path.realpath(given))
    if target.is_symlink():
        raise UserError(
            f"An output must be a file. Got {os.fspath(path)!r}, a symbolic link that leads back "
            "to itself; choose another."
        )
    return target


def require_folder(path: str | os.PathLike[str]) -> None:
    """Raise unless the folder of a path exists; call it before a long job, not after."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"A file can only be written into a folder that exists. Got {os.fspath(path)!r}. "
            f"Make the folder {str(folder)!r} first."
        )


KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
"""Names of the kinds of paths that are no regular files."""


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise if a path exists and is not a regular file, which alone can be replaced."""
    target = Path(path)
    if target.exists() and not target.is_file():
        kind = KINDS.get(stat.S_IFMT(target.stat().st_mode), "something else")
        raise UserError(
            f"An output must be a regular file, or not exist. Got {os.fspath(path)!r}, which is "
            f"{kind}; choose another."
        )


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


def _require_no_input(path: StrPath, target: Path, inputs: Iterable[StrPath]) -> None:
    target = Path(os.path.realpath(target))  # so that its parents are those of the file
    for each in inputs:
        given = Path(each)
        if not given.exists():
            continue  # reading it raises a better error
        places = (target, *target.parents) if given.is_dir() else (target,)
        if same := [place for place in places if place.exists() and place.samefile(given)]:
            where = "is" if target in same else "is in"
            raise OutputError(
                f"An output must not replace an input. Got {os.fspath(path)!r}, which {where} "
                f"{os.fspath(each)!r}; choose another."
            )


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


HEADER_BYTES = 64
"""Bytes at the beginning of a file in which the mark of its kind is looked for."""


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
        problem = f"The result could not be written to {os.fspath(path)!r}: {error}."
        for parent in (tempfile.gettempdir, Path.home, Path.cwd):
            folder = None
            try:
                folder = Path(tempfile.mkdtemp(prefix="sswim-", dir=parent()))
                place = folder / Path(path).name
                save(place)
            except (OSError, RuntimeError):  # RuntimeError: there is no home
                if folder is not None:
                    folder.rmdir()
            else:
                message = f"{problem} It was written to {str(place)!r}; move it."
                raise OutputError(message) from error
        raise OutputError(f"{problem} No other folder could take it, so it is lost.") from error
