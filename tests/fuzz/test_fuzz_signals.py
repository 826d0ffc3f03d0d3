"""Ctrl-C and SIGTERM at a random moment of ``sswim fit``, ``predict`` and ``grid``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from builders.fuzzing import fuzz
from builders.maps import FAST as MAP_FAST
from hypothesis import strategies as st

from sswim import load
from sswim.cli.entry import STOPPED
from sswim.estimator import make_estimator
from sswim.tables import open_table, write_table

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}

PATIENCE = 20.0
"""Seconds in which a command must end after a signal; it needs one, on a machine that is free."""

N_ROWS = 6000

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

SHORT = ("--depth=1", "--n-components=16", "--n-pseudo=4", "--max-iter=20", "--no-verbose")

REGION = ("--region", "-2", "2", "-2", "2")

COMMANDS: dict[str, tuple[list[str], str, Callable[[Path], object]]] = {
    "fit": (
        ["fit", "table.csv", "--target", "z", "--out", "out.sswim", "--force", *SHORT],
        "out.sswim",
        load,
    ),
    "predict": (
        ["predict", "model.sswim", "table.csv", "--out", "out.csv"],
        "out.csv",
        lambda path: open_table(path).n_rows == N_ROWS or pytest.fail("rows are missing"),
    ),
    "grid": (
        ["grid", "model.sswim", *REGION, "--shape", "80", "80", "--out", "out.nc"],
        "out.nc",
        lambda path: path.read_bytes()[:4] == b"\x89HDF" or pytest.fail("it is no netCDF file"),
    ),
}
"""Arguments, the name of the output and a check of it."""

OLD = b"an older file"


@pytest.fixture(autouse=True, scope="module")
def _inputs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Write the inputs."""
    folder = tmp_path_factory.mktemp("inputs")
    random = np.random.default_rng(0)
    x, y = random.uniform(-2, 2, (2, N_ROWS))
    table = pa.table({"x": x, "y": y, "z": np.sin(x) + y})
    write_table(table, folder / "table.csv")
    frame = table.slice(0, 50).to_pandas()
    model = make_estimator(**MAP_FAST, coordinates=("x", "y")).fit(frame[["x", "y"]], frame["z"])
    model.save(folder / "model.sswim")
    _files.update({path.name: path.read_bytes() for path in folder.iterdir()})


_files: dict[str, bytes] = {}
"""Inputs by their names."""


def run(
    command: str, folder: Path, number: signal.Signals, moment: float, imported: bool, again: bool
) -> tuple[int, str]:
    """Run a command, and send it a signal after a number of seconds, or two.

    Return its exit code and what it prints.
    """
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "imported" if imported else "", *COMMANDS[command][0]],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        with process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                time.sleep(moment)
                for _ in range(1 + again):
                    process.send_signal(number)
                process.wait(PATIENCE)
            finally:
                process.kill()
        log.seek(0)
        return process.returncode, log.read()


@fuzz(
    small=1,
    full=200,
    part=5,
    limit=120.0,
    command=st.sampled_from([*COMMANDS]),
    number=st.sampled_from([*CODES]),
    moment=st.floats(0, 3) | st.floats(0, 1),
    imported=st.sampled_from([True, True, False]),
    again=st.sampled_from([False, False, True]),
)
def test_a_signal_leaves_a_whole_output_or_none(
    command: str, number: signal.Signals, moment: float, imported: bool, again: bool
) -> None:
    _, name, check = COMMANDS[command]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for file, data in (_files | {name: OLD}).items():
            (folder / file).write_bytes(data)
        code, words = run(command, folder, number, moment, imported, again)
        assert "Traceback" not in words, words
        assert code in {0, CODES[number], *([STOPPED] if command == "fit" else [])}
        if code in (0, STOPPED) or (folder / name).read_bytes() != OLD:
            check(folder / name)
        assert {file: (folder / file).read_bytes() for file in _files} == _files
        stray = {file.name for file in folder.iterdir()} - {*_files, name}
        assert again or not stray  # the second signal ends the process at once
