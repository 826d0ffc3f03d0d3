"""Fits that are started as commands: how they are watched, ended by force, and compared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sswim.estimator.model_file import MODEL

PATIENCE = 120.0
"""Seconds for which anything is waited for: many times what it takes."""

N_INPUTS = 3


def write_rows(folder: Path, n_rows: int, n_files: int = 4) -> Path:
    """A folder of Parquet files of a function with noise; the same rows every time."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number, n in enumerate(len(part) for part in np.array_split(np.arange(n_rows), n_files)):
        x = random.normal(size=(n, N_INPUTS))
        y = np.sin(3 * x[:, 0]) * np.exp(x[:, 1] / 2) + 0.1 * random.normal(size=n)
        columns = {f"x{column}": x[:, column] for column in range(N_INPUTS)} | {"y": y}
        pq.write_table(pa.table(columns), folder / f"part-{number}.parquet", row_group_size=2000)
    return folder


def fit(table: Path, out: Path, *options: str) -> list[str]:
    """What Python or torchrun is given to learn from such a folder."""
    given = ["--target", "y", "--out", str(out), "--device", "cpu", "--random-state", "0"]
    return ["-m", "sswim", "fit", str(table), *given, *options]


def alone() -> list[str]:
    """What starts one process."""
    return [sys.executable]


def torchrun(n_processes: int, *options: str) -> list[str]:
    """What starts several processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run"]
    return [*launcher, "--nproc-per-node", str(n_processes), *options]


@contextmanager
def is_launched(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command whose words go to a file; what is left of it in the end is killed."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
        )
    try:
        yield process
    finally:
        kill([*workers(process.pid).values(), process.pid] if process.poll() is None else [])
        process.wait(PATIENCE)


def run(command: Sequence[str], log: Path) -> None:
    """Run a command to its end, which must be a good one."""
    with is_launched(command, log) as process:
        if process.wait(PATIENCE) != 0:
            raise RuntimeError(f"{command} ended with {process.returncode}: {log.read_text()}")


def workers(launcher: int) -> dict[int, int]:
    """The processes that torchrun has started so far, by their ranks."""
    found = {}
    for children in Path("/proc", str(launcher), "task").glob("*/children"):
        for child in children.read_text().split():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                environment = Path("/proc", child, "environ").read_bytes().decode()
                variables = dict(entry.split("=", 1) for entry in environment.split("\0") if entry)
                if "RANK" in variables:
                    found[int(variables["RANK"])] = int(child)
    return found


def kill(processes: Sequence[int]) -> None:
    """End processes at once: they cannot do anything about it."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def is_running(process: int) -> bool:
    """Whether a process is there, and not only waits to be asked how it ended."""
    try:
        state = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(condition: Callable[[], bool], pause: float = 0.01) -> float:
    """How many seconds it took until a condition held."""
    began = time.perf_counter()
    while not condition():
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError(f"{condition} did not hold within {PATIENCE} s.")
        time.sleep(pause)
    return time.perf_counter() - began


def largest_difference(ours: Path, theirs: Path) -> float:
    """Of any tensor of two model files, relative to the largest number of the tensor."""
    one, other = MODEL.read(ours)[0], MODEL.read(theirs)[0]
    if one.keys() != other.keys():
        raise ValueError(f"{ours} and {theirs} must have the same tensors. Got other names.")
    return max(
        ((one[name] - other[name]).abs().max() / other[name].abs().max().clamp(min=1e-300)).item()
        for name in one
        if one[name].numel()
    )
