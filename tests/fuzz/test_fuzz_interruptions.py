"""Commands on disks without room, and under Ctrl-C and SIGTERM: old outputs stay, or new are whole.

Nothing is lost, inputs stay as they are, and an error says what to do.
"""

from __future__ import annotations

import functools
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest
from builders.commands import FAST, invoke
from builders.fuzzing import fuzz
from builders.maps import FAST as MAP_FAST
from hypothesis import example
from hypothesis import strategies as st

from sswim import load
from sswim.cli.entry import STOPPED
from sswim.estimator import make_estimator
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
            before = resource.getrlimit(resource.RLIMIT_FSIZE)  # Python ignores the signal of that
            resource.setrlimit(resource.RLIMIT_FSIZE, (n_pages * PAGE, before[1]))
            try:
                yield folder
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, before)
            return
        _mount("-t", "tmpfs", "-o", f"size={DISK_PAGES * PAGE}", "tmpfs", name)
        try:
            (folder / old).write_bytes(OLD)
            if kind == "read-only":
                _mount("-o", "remount,ro", name)
            else:
                free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize // PAGE
                (folder / "filler").write_bytes(bytes(max(0, free - n_pages) * PAGE))
            yield folder
        finally:
            # Lazily: an error may still hold the file that it is about.
            subprocess.run(["umount", "-l", name], check=True)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


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


N_ROWS = {"short": 60, "long": 6000}
"""Rows of the tables."""

_inputs: list[Path] = []
"""The folder of the tables and the model."""


@pytest.fixture(autouse=True, scope="module")
def _written(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("inputs")
    random = np.random.default_rng(0)
    x, y = random.uniform(-2, 2, (2, N_ROWS["long"]))
    table = pa.table({"x": x, "y": y, "z": np.sin(x) + y})
    for name, n_rows in N_ROWS.items():
        for suffix in (".csv", ".parquet"):
            write_table(table.slice(0, n_rows), folder / f"{name}{suffix}")
    frame = table.slice(0, 50).to_pandas()
    model = make_estimator(**MAP_FAST, coordinates=("x", "y")).fit(frame[["x", "y"]], frame["z"])
    model.save(folder / "model.sswim")
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


def require_whole(path: Path, table: str) -> None:
    """Check that an output is complete."""
    if path.suffix == ".sswim":
        load(path)
    elif path.suffix in (".nc", ".tif"):
        assert path.read_bytes()[:4] in (b"\x89HDF", b"II*\0")
    else:
        assert open_table(path).n_rows == N_ROWS[table]


FIT = "fit short.csv --target z --force --out out.sswim"
GRID = "grid model.sswim --region -2 2 -2 2 --shape"
ON_DISKS = {
    "fit": " ".join((FIT, *FAST)),
    "fit with checkpoints": " ".join((FIT, *FAST, "--every 1 --checkpoints kept")),
    "predict CSV": "predict model.sswim short.csv --out out.csv",
    "predict gzip": "predict model.sswim short.csv --out out.csv.gz",
    "predict Parquet": "predict model.sswim short.parquet --out out.parquet",
    "predict Arrow": "predict model.sswim short.parquet --out out.arrow",
    "netCDF": f"{GRID} 20 20 --out out.nc",
    "GeoTIFF": f"{GRID} 20 20 --crs EPSG:4326 --out out.tif",
}
"""Commands that take no time."""


@fuzz(
    small=6,
    full=300,
    part=20,
    limit=60.0,
    kind=st.sampled_from(kinds()),
    command=st.sampled_from([*ON_DISKS]),
    n_pages=st.integers(0, 3) | st.integers(0, 12),
)
# HDF5 ended the process by a segmentation fault.
@example(kind="limited", command="netCDF", n_pages=1)
def test_a_disk_without_room_loses_nothing(kind: Disk, command: str, n_pages: int) -> None:
    words = ON_DISKS[command].split()
    inputs = {path.name: path for path in _inputs[0].iterdir()}
    before = {path: path.read_bytes() for path in inputs.values()}
    name = words[words.index("--out") + 1]
    with disk(kind, n_pages, name) as folder:
        outputs = {each: folder / each for each in (name, "kept")}
        result = invoke(*((inputs | outputs).get(word, word) for word in words))
        assert "Traceback" not in result.output
        if result.exit_code == 0:
            require_whole(folder / name, "short")
        else:
            assert result.exit_code == 1
            assert len(re.findall("^Error: ", result.stderr, re.MULTILINE)) == 1
            assert (folder / name).read_bytes() == OLD
            place = re.search("It was written to '(.*)'; move it", result.stderr)
            if place is not None:
                load(place[1])
            elif "could not be written" in result.stderr:
                assert "so it is lost" in result.stderr
        assert {path.name for path in folder.iterdir()} <= {name, "filler", "kept"}
    assert {path: path.read_bytes() for path in inputs.values()} == before


SHORT = "--depth=1 --n-components=16 --n-pseudo=4 --max-iter=20 --no-verbose"
INTERRUPTED = {
    "fit": f"fit long.csv --target z --out out.sswim --force {SHORT}",
    "predict": "predict model.sswim long.csv --out out.csv",
    "grid": f"{GRID} 80 80 --out out.nc",
}

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}

PATIENCE = 20.0
"""Seconds in which a command must end after a signal; it needs one, on a machine that is free."""

PROGRAM = """
import os, signal, sys
from sswim.cli import entry
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
entry.handle_signals(entry.end_at_once)
if sys.argv.pop(1) == "imported":
    import sswim.estimator.table_prediction, sswim.maps.grid_files
os.write(1, b"ready\\n")
entry.main()
"""
"""Runs the command, and says when signals are handled."""


@fuzz(
    small=1,
    full=200,
    part=5,
    limit=120.0,
    command=st.sampled_from([*INTERRUPTED]),
    number=st.sampled_from([*CODES]),
    moment=st.floats(0, 3) | st.floats(0, 1),
    imported=st.sampled_from([True, True, False]),
    again=st.sampled_from([False, False, True]),
)
def test_a_signal_leaves_a_whole_output_or_none(
    command: str, number: signal.Signals, moment: float, imported: bool, again: bool
) -> None:
    words = INTERRUPTED[command].split()
    inputs = {path.name: path.read_bytes() for path in _inputs[0].iterdir()}
    name = words[words.index("--out") + 1]
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryFile("w+") as log:
        folder = Path(place)
        for file, data in (inputs | {name: OLD}).items():
            (folder / file).write_bytes(data)
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "imported" if imported else "", *words],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        ) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                time.sleep(moment)
                for _ in range(1 + again):
                    process.send_signal(number)
                code = process.wait(PATIENCE)
            finally:
                process.kill()
        log.seek(0)
        assert "Traceback" not in log.read()
        assert code in {0, CODES[number], *([STOPPED] if command == "fit" else [])}
        if code in (0, STOPPED) or (folder / name).read_bytes() != OLD:
            require_whole(folder / name, "long")
        assert {file: (folder / file).read_bytes() for file in inputs} == inputs
        stray = {file.name for file in folder.iterdir()} - {*inputs, name}
        assert again or not stray  # the second signal ends the process at once
