"""Disks that are full or read-only: a small file system of its own, or a limit of file sizes."""

from __future__ import annotations

import functools
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Disk = Literal["full", "read-only", "limited"]

PAGE = 4096
DISK_PAGES = 256


@contextmanager
def disk(kind: Disk, n_pages: int, old: dict[str, bytes]) -> Iterator[Path]:
    """Yield a folder that has some files and little room for more.

    Args:
        kind: "full": a file system with some free pages. "read-only": one that cannot be written.
            "limited": no file can become larger than these pages.
        n_pages: Free pages.
        old: Files of the folder.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "limited":
            _write(folder, old)
            with _limited(n_pages * PAGE):
                yield folder
            return
        _mount("-t", "tmpfs", "-o", f"size={DISK_PAGES * PAGE}", "tmpfs", name)
        try:
            _write(folder, old)
            if kind == "read-only":
                _mount("-o", "remount,ro", name)
            else:
                _fill(folder, n_pages)
            yield folder
        finally:
            # Lazily: an error may still hold the file that it is about.
            subprocess.run(["umount", "-l", name], check=True)


@functools.cache
def kinds() -> tuple[Disk, ...]:
    """Return the kinds of disks that this process may make; only root may mount file systems."""
    if os.geteuid() != 0 or not shutil.which("mount"):
        return ("limited",)
    try:
        with disk("full", 1, {}):
            return ("full", "read-only", "limited")
    except subprocess.CalledProcessError:
        return ("limited",)


def _write(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


def _fill(folder: Path, n_pages: int) -> None:
    """Fill a file system up to a number of free pages."""
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize // PAGE
    (folder / "filler").write_bytes(bytes(max(0, free - n_pages) * PAGE))


@contextmanager
def _limited(size: int) -> Iterator[None]:
    """Let no file of this process become larger than a size; Python ignores the signal of that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
