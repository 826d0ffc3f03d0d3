"""Writing figures to files."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from sswim.files.output_files import atomic_write

DPI = 200
"""Resolution of the PNG file, and of images in the PDF file."""


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as PDF, and return the paths."""
    # Without a date, equal figures make equal files.
    metadata = {"png": {}, "pdf": {"CreationDate": None}}
    paths = []
    for suffix, entries in metadata.items():
        path = folder / f"{name}.{suffix}"
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format=suffix, dpi=DPI, metadata=entries)
        paths.append(path)
    return paths
