"""Fetching a file from its address, with a progress bar."""

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


def retrieve(url: str, file: Path) -> None:
    """Download a file; an OSError says why it cannot be had."""
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
            downloader = pooch.HTTPDownloader(Bar(progress, file.name), CHUNK)
            pooch.retrieve(url, None, file.name, file.parent, downloader=downloader)
    finally:
        logger.setLevel(level)


class Bar:
    """What pooch calls while a file comes in."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)

    @property
    def total(self) -> float | None:
        """Bytes to come; servers need not say."""
        return self._progress.tasks[self._task].total

    @total.setter
    def total(self, n_bytes: int) -> None:
        self._progress.update(self._task, total=n_bytes or None)

    def update(self, n_bytes: int) -> None:
        """So many more bytes are in."""
        self._progress.advance(self._task, n_bytes)

    def reset(self) -> None:
        """Count anew: chunks are counted as full, and the last one is not."""
        self._progress.reset(self._task)

    def close(self) -> None:
        """The progress display ends with the download."""
