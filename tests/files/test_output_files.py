from __future__ import annotations

import os
import shutil
import socket
import stat
from pathlib import Path

import pytest

from sswim.base.validation import UserError
from sswim.files.output_files import (
    OutputError,
    atomic_write,
    check_output_file,
    check_output_folder,
    require_replaceable,
    save_somewhere,
)


def test_an_input_is_not_replaced_whatever_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, link, hard = (tmp_path / name for name in ("data.csv", "link.csv", "hard.csv"))
    data.write_text("text")
    link.symlink_to(data)
    hard.hardlink_to(data)
    monkeypatch.chdir(tmp_path)
    for path in (data, link, hard, Path("data.csv"), tmp_path / "." / "data.csv"):
        for given in (data, link):
            with pytest.raises(OutputError, match=r"must not replace an input.*which is '"):
                check_output_file(path, [given])


def test_a_folder_that_is_read_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    (folder / "year=1").mkdir(parents=True)
    link.symlink_to(folder)
    monkeypatch.chdir(folder / "year=1")
    for path in (folder / "a.csv", folder / "year=1" / "a.csv", link / "a.csv", Path("a.csv")):
        with pytest.raises(OutputError, match="which is in "):
            check_output_file(path, [folder])
    for path in (folder, link, folder / "new" / "newer"):
        with pytest.raises(OutputError, match="must not replace an input"):
            check_output_folder(path, [folder])
    check_output_folder(tmp_path / "new" / "newer", [folder])
    check_output_file(tmp_path / "a.csv", [folder])


def test_only_regular_files_that_can_be_written_are_replaced(tmp_path: Path) -> None:
    pipe, link, device = tmp_path / "pipe", tmp_path / "link", tmp_path / "device"
    locked, server = tmp_path / "locked", tmp_path / "socket"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    device.symlink_to("/dev/null")
    locked.touch(0o444)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(server))
    kinds = {pipe: "a named pipe", link: "a named pipe", device: "a device", server: "a socket"}
    for path, kind in {**kinds, tmp_path: "a folder"}.items():
        for write in (check_output_file, lambda path: atomic_write(path).__enter__()):
            with pytest.raises(UserError, match=f"must be a regular file.*which is {kind}"):
                write(path)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    with pytest.raises(OutputError, match="read-only"):
        check_output_file(locked)
    with pytest.raises(OutputError, match="must be a folder"):
        check_output_folder(locked)


def test_a_link_is_followed_and_must_lead_somewhere(tmp_path: Path) -> None:
    link, astray, circle = tmp_path / "link", tmp_path / "astray", tmp_path / "circle"
    link.symlink_to(tmp_path / "new")
    astray.symlink_to(tmp_path / "missing" / "new")
    circle.symlink_to(circle)
    check_output_file(link, [tmp_path / "missing"])
    with pytest.raises(FileNotFoundError, match="Make the folder"):
        check_output_file(astray)
    with pytest.raises(UserError, match="leads back to itself"):
        check_output_file(circle)
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no folder that root cannot write")
def test_a_folder_that_cannot_be_written_is_refused() -> None:
    for check in (check_output_file, check_output_folder):
        with pytest.raises(OutputError, match="no file can be made in '/proc"):
            check("/proc/self/new")


def test_only_files_of_a_kind_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    require_replaceable(path, b"MARK", "marked file")
    for content in (b"", b"a MARK of it"):
        path.write_bytes(content)
        require_replaceable(path, b"MARK", "marked file")
    path.write_bytes(b"other")
    with pytest.raises(OutputError, match=r"only if it is a marked file.*--force"):
        require_replaceable(path, b"MARK", "marked file")


def test_a_result_that_cannot_be_saved_is_saved_elsewhere_or_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, home, out = (tmp_path / name for name in ("first", "home", "out"))
    for folder in (first, home):
        folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(first))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    full = {out}

    def save(path: Path) -> None:
        if any(folder in path.parents for folder in full):
            raise OSError(28, "No space left on device")
        path.write_text("result")

    save_somewhere(save, tmp_path / "model")
    assert (tmp_path / "model").read_text() == "result"
    for folder in (first, home):
        message = rf"No space left.*It was written to '.*/{folder.name}/.*model'"
        with pytest.raises(OutputError, match=message):
            save_somewhere(save, out / "model")
        [kept] = folder.glob("*/model")
        assert kept.read_text() == "result"
        shutil.rmtree(kept.parent)
        full.add(folder)
    with pytest.raises(OutputError, match="it is lost"):
        save_somewhere(save, out / "model")
    assert list(first.iterdir()) == list(home.iterdir()) == []


def test_the_file_appears_when_all_went_well(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with atomic_write(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o400
    missing = atomic_write(tmp_path / "missing" / "file")
    with pytest.raises(FileNotFoundError, match=r"Make the folder .*missing"), missing:
        pass


@pytest.mark.parametrize("error", [OSError("No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_what_was_there(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(type(error)), atomic_write(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise error
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


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
