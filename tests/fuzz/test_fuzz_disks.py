"""Outputs on disks that are full or read-only: nothing is lost, and the error says what to do."""

from __future__ import annotations

import functools
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from builders.commands import FAST, invoke, prices, write_price_model
from builders.fuzzing import count_refusal, fuzz
from builders.maps import plane_model
from hypothesis import example
from hypothesis import strategies as st

from sswim import load
from sswim.tables import open_table, write_table

Disk = Literal["full", "read-only", "limited"]

OLD = b"an older file"

PAGE = 4096
DISK_PAGES = 256


@contextmanager
def disk(kind: Disk, n_pages: int, old: str) -> Iterator[Path]:
    """Yield a folder that has an older file and little room for more.

    Args:
        kind: "full": a file system with some free pages. "read-only": one that cannot be written.
            "limited": no file can become larger than these pages.
        n_pages: Free pages.
        old: Name of the older file.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "limited":
            (folder / old).write_bytes(OLD)
            with _limited(n_pages * PAGE):
                yield folder
            return
        _mount("-t", "tmpfs", "-o", f"size={DISK_PAGES * PAGE}", "tmpfs", name)
        try:
            (folder / old).write_bytes(OLD)
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
        with disk("full", 1, "old"):
            return ("full", "read-only", "limited")
    except subprocess.CalledProcessError:
        return ("limited",)


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


N_ROWS = 60
"""Rows of the table of prices."""

_inputs: list[Path] = []
"""The folder of the table and the models."""


@pytest.fixture(autouse=True, scope="module")
def _written(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("inputs")
    write_price_model(folder)
    plane_model().save(folder / "map.sswim")
    for suffix in (".csv", ".parquet"):
        write_table(prices(N_ROWS), folder / f"table{suffix}")
    _inputs[:] = [folder]


@pytest.fixture(autouse=True)
def _spare_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Save elsewhere only where it is deleted again."""
    (tmp_path / "spare").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path / "spare"))
        patch.setenv("HOME", str(tmp_path / "spare"))
        patch.chdir(tmp_path / "spare")
        yield


def _has_rows(path: Path) -> bool:
    return open_table(path).n_rows == N_ROWS


FIT = ("fit", "table.csv", "--target", "price", "--force")

REGION = ("--region", "0", "10", "40", "45")

COMMANDS: dict[str, tuple[list[str], str, Callable[[Path], Any]]] = {
    "fit": ([*FIT, *FAST], "m.sswim", load),
    "fit with checkpoints": (
        [*FIT, *FAST, "--every", "1", "--checkpoints", "CHECKPOINT"],
        "m.sswim",
        load,
    ),
    "predict CSV": (["predict", "model.sswim", "table.csv"], "out.csv", _has_rows),
    "predict gzip": (["predict", "model.sswim", "table.csv"], "out.csv.gz", _has_rows),
    "predict Parquet": (["predict", "model.sswim", "table.parquet"], "out.parquet", _has_rows),
    "predict Arrow": (["predict", "model.sswim", "table.parquet"], "out.arrow", _has_rows),
    "netCDF": (["grid", "map.sswim", *REGION, "--shape", "20", "20"], "out.nc", Path.read_bytes),
    "GeoTIFF": (["grid", "map.sswim", *REGION, "--shape", "20", "20"], "out.tif", Path.read_bytes),
}
"""Arguments, the name of the output, and a check of it."""


@fuzz(
    small=6,
    full=300,
    part=20,
    limit=60.0,
    kind=st.sampled_from(kinds()),
    command=st.sampled_from([*COMMANDS]),
    n_pages=st.integers(0, 3) | st.integers(0, 12),
)
# HDF5 ended the process by a segmentation fault.
@example(kind="limited", command="netCDF", n_pages=1)
def test_a_disk_without_room_loses_nothing(kind: Disk, command: str, n_pages: int) -> None:
    arguments, name, check = COMMANDS[command]
    before = {path: path.read_bytes() for path in _inputs[0].iterdir()}
    with disk(kind, n_pages, name) as folder:
        given = [_inputs[0] / each if (_inputs[0] / each).exists() else each for each in arguments]
        given = [folder / "kept" if each == "CHECKPOINT" else each for each in given]
        result = invoke(*given, "--out", folder / name)
        assert "Traceback" not in result.output
        if result.exit_code == 0:
            check(folder / name)
        else:
            assert result.exit_code == 1
            assert len(re.findall("^Error: ", result.stderr, re.MULTILINE)) == 1
            assert (folder / name).read_bytes() == OLD
            count_refusal()
            require_kept(result.stderr)
        left = {path.name for path in folder.iterdir()}
        assert left <= {name, "filler", "kept"}
    assert {path: path.read_bytes() for path in _inputs[0].iterdir()} == before


def require_kept(words: str) -> None:
    """Check a model that was saved in another place, if the error names one."""
    place = re.search("It was written to '(.*)'; move it", words)
    if place is not None:
        load(place[1])
    elif "could not be written" in words:
        assert "so it is lost" in words
