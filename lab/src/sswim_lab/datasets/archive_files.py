"""Reading files inside ZIP and TAR archives without unpacking them."""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path, PurePosixPath
from typing import cast

DAMAGE_ERRORS = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError)
"""Errors that reading a damaged archive raises, besides OSError."""


@contextmanager
def open_in_zip(archive: Path, name: str) -> Iterator[BufferedIOBase]:
    """Open a file of a ZIP archive by its name, in any folder of the archive."""
    with (
        zipfile.ZipFile(archive) as opened,
        opened.open(_full_name(name, opened.namelist())) as file,
    ):
        yield cast(BufferedIOBase, file)


@contextmanager
def open_in_tar(archive: Path | BufferedIOBase, name: str) -> Iterator[BufferedIOBase]:
    """Open a file of a TAR archive, compressed or not; the archive may be an open file."""
    with (
        tarfile.open(archive) if isinstance(archive, Path) else tarfile.open(fileobj=archive)
    ) as opened:
        file = opened.extractfile(_full_name(name, opened.getnames()))
        if file is None:
            raise ValueError(f"{name} must be a file in the archive. Got something else.")
        with file:
            yield cast(BufferedIOBase, file)


def _full_name(name: str, full_names: Iterable[str]) -> str:
    """Return the name of a file with its folders."""
    for full_name in full_names:
        if PurePosixPath(full_name).name == name:
            return full_name
    raise ValueError(f"The archive must contain {name}. Got none of that name.")
