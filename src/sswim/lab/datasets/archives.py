"""Files inside archives, read without unpacking them."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import cast

DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError)
"""What reading a damaged archive raises, besides OSError."""


@contextmanager
def zipped(archive: Path, name: str) -> Iterator[BufferedIOBase]:
    """Open a file in a ZIP archive, in whatever folder of it."""
    with zipfile.ZipFile(archive) as opened, opened.open(_full(name, opened.namelist())) as file:
        yield cast(BufferedIOBase, file)


@contextmanager
def tarred(archive: Path | BufferedIOBase, name: str) -> Iterator[BufferedIOBase]:
    """Open a file in a TAR archive, compressed or not, which may itself be in an archive."""
    with (
        tarfile.open(archive) if isinstance(archive, Path) else tarfile.open(fileobj=archive)
    ) as opened:
        file = opened.extractfile(_full(name, opened.getnames()))
        if file is None:
            raise ValueError(f"{name} must be a file in the archive. Got something else.")
        with file:
            yield cast(BufferedIOBase, file)


def _full(name: str, members: Iterable[str]) -> str:
    """The name of a member with its folders."""
    for member in members:
        if PurePosixPath(member).name == name:
            return member
    raise ValueError(f"The archive must hold {name}. Got none such.")
