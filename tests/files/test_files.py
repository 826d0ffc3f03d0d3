from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sswim.base.validation import UserError
from sswim.files.output_files import atomic_write


def test_the_file_appears_when_all_went_well(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o400


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(type(error)), atomic_write(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError, match=r"Make the folder .*missing"),
        atomic_write(tmp_path / "missing" / "file"),
    ):
        pass


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path, link = tmp_path / "folder" / "file", tmp_path / "link"
    link.symlink_to("folder/file")
    for text in ("first", "second"):  # the link leads nowhere, then to a file
        with atomic_write(link) as temporary:
            temporary.write_text(text)
        assert link.is_symlink()
        assert not path.is_symlink()
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="a named pipe"), atomic_write(pipe):
        pass
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]
