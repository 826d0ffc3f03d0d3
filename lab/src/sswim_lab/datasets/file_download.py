"""Download of one file, with a progress bar."""

from __future__ import annotations

from pathlib import Path

import pooch
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

CHUNK = 1 << 16
"""Bytes to read at a time."""


def download_file(url: str, file: Path) -> None:
    """Download a file; raise OSError if that fails."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")  # else it advises users to write the file's hash into the source
    try:
        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        ) as progress:
            downloader = pooch.HTTPDownloader(DownloadBar(progress, file.name), CHUNK)
            pooch.retrieve(url, None, file.name, file.parent, downloader=downloader)
    finally:
        logger.setLevel(level)


class DownloadBar:
    """A progress bar with the interface that pooch expects."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)

    @property
    def total(self) -> float | None:
        """Number of bytes of the file; None if the server does not give it."""
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, n_bytes: int) -> None:
        self._progress.update(self._task, total=n_bytes or None)

    def update(self, n_bytes: int) -> None:
        """Add a number of bytes received."""
        self._progress.advance(self._task, n_bytes)

    def reset(self) -> None:
        """Start counting again: pooch counts the last chunk as full, then corrects that."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """Do nothing: the display ends with the download."""
