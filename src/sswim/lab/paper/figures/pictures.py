"""Pictures as files."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from sswim.base.files import atomic_write

DPI = 200
"""Of the PNG file, and of what is an image in the PDF file."""


def write_picture(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure to look at (PNG) and one to print (PDF)."""
    # Without the date, the same numbers make the same file.
    metadata = {"png": {}, "pdf": {"CreationDate": None}}
    paths = []
    for suffix, entries in metadata.items():
        path = folder / f"{name}.{suffix}"
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format=suffix, dpi=DPI, metadata=entries)
        paths.append(path)
    return paths
