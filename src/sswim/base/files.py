"""Atomic writing: a file is replaced only by a complete one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def require_folder(path: str | os.PathLike[str]) -> None:
    """Raise unless the folder of a path exists; call it before a long job, not after."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"A file can only be written into a folder that exists. Got {os.fspath(path)!r}. "
            f"Make the folder {str(folder)!r} first."
        )


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path in the same folder, and move it to ``path`` on success.

    On any failure (a full disk, an interruption) the temporary file is removed, and a file that
    already existed under ``path`` stays as it was.
    """
    require_folder(path)
    target = Path(path)
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
