"""Atomic writing: a file is replaced only by a complete one."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sswim.base.errors import UserError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}
"""Names of the kinds of paths that are no regular files."""


def require_folder(path: str | os.PathLike[str]) -> None:
    """Raise unless the folder of a path exists; call it before a long job, not after."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"A file can only be written into a folder that exists. Got {os.fspath(path)!r}. "
            f"Make the folder {str(folder)!r} first."
        )


def require_regular(path: str | os.PathLike[str]) -> None:
    """Raise if a path exists and is not a regular file, which alone can be replaced."""
    target = Path(path)
    if target.exists() and not target.is_file():
        kind = KINDS.get(stat.S_IFMT(target.stat().st_mode), "something else")
        raise UserError(
            f"An output must be a regular file, or not exist. Got {os.fspath(path)!r}, which is "
            f"{kind}; choose another."
        )


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
