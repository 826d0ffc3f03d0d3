"""Download of one file, from a local server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_builders.datasets import serve
from rich.progress import Progress

pooch = pytest.importorskip("pooch")

from sswim_lab.datasets.file_download import DownloadBar, download_file  # noqa: E402

# Pooch does not close the connection of an error response.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with serve(tmp_path / "public") as address:
        yield address


def test_a_file_is_downloaded_as_it_is(tmp_path: Path, server: str) -> None:
    content = bytes(range(256)) * 1000  # several chunks
    (tmp_path / "public" / "numbers").write_bytes(content)
    level = pooch.get_logger().level
    download_file(f"{server}/numbers", tmp_path / "new" / "copy")
    assert (tmp_path / "new" / "copy").read_bytes() == content
    assert pooch.get_logger().level == level


def test_a_missing_file_raises_an_error_and_leaves_nothing(tmp_path: Path, server: str) -> None:
    level = pooch.get_logger().level
    with pytest.raises(OSError, match="404"):
        download_file(f"{server}/gone", tmp_path / "new" / "copy")
    assert not (tmp_path / "new" / "copy").exists()
    assert pooch.get_logger().level == level


def test_the_bar_counts_bytes() -> None:
    progress = Progress(disable=True)
    bar = DownloadBar(progress, "file")
    assert bar.total is None
    bar.total = 0  # a server that does not give the size
    assert bar.total is None
    bar.total = 100
    bar.update(30)
    bar.update(20)
    (task,) = progress.tasks
    assert (task.total, task.completed) == (100, 50)
    bar.reset()
    assert task.completed == 0
