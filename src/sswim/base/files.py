"""Writing files so that a half-written one never takes the place of a good one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def require_folder(path: str | os.PathLike[str]) -> None:
    """Refuse a path into a folder that does not exist; before a long job, rather than after."""
    folder = Path(path).parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"A file can only be written into a folder that exists. Got {os.fspath(path)!r}; "
            f"make {str(folder)!r} first."
        )


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary name beside the path, which takes its place only when all went well.

    On any failure (a full disk, an interruption) the temporary file is removed and whatever stood
    under the path stays as it was.
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
        # mkstemp makes files private; what stands under the path gets the usual permissions.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
