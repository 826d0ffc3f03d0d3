"""Shared by a script and tests: fits as commands, to be started, watched, killed and compared."""

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
from scripting import write_file

from sswim.estimator.model_file import MODEL

PATIENCE = 120.0
"""Longest wait in seconds, many times longer than anything should take."""

N_INPUTS = 3


def write_rows(folder: Path, n_rows: int, n_files: int = 4) -> Path:
    """Write a folder of Parquet files, with the same rows every time, and return it."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number, n in enumerate(len(part) for part in np.array_split(np.arange(n_rows), n_files)):
        write_file(folder / f"part-{number}.parquet", random, n, N_INPUTS, group_rows=2000)
    return folder


def fit_arguments(table: Path, out: Path, *options: str) -> list[str]:
    """Return the arguments with which Python or torchrun fits a model to a folder of rows."""
    given = ["--target", "y", "--out", str(out), "--device", "cpu", "--random-state", "0"]
    return ["-m", "sswim", "fit", str(table), *given, *options]


def python_command() -> list[str]:
    """Return the command that starts one process."""
    return [sys.executable]


def torchrun_command(n_processes: int, *options: str) -> list[str]:
    """Return the command that starts several processes."""
    launcher = [sys.executable, "-m", "torch.distributed.run"]
    return [*launcher, "--nproc-per-node", str(n_processes), *options]


@contextmanager
def launch(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a command that writes to a log file; kill what still runs of it at the end."""
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
    """Run a command to its end; raise an error if it fails."""
    with launch(command, log) as process:
        if process.wait(PATIENCE) != 0:
            raise RuntimeError(
                f"{command} must succeed. It ended with {process.returncode}: {log.read_text()}"
            )


def workers(launcher: int) -> dict[int, int]:
    """Return the process ids that torchrun has started so far, by rank."""
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
    """Kill processes by SIGKILL, which they cannot handle."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], pause: float = 0.01) -> float:
    """Wait until a condition holds and return the seconds that it took."""
    began = time.perf_counter()
    while not condition():
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError(f"{condition} must hold within {PATIENCE} s. It did not.")
        time.sleep(pause)
    return time.perf_counter() - began


def largest_difference(ours: Path, theirs: Path) -> float:
    """Return the largest difference between tensors of two model files, relative to each tensor."""
    one, other = MODEL.read(ours)[0], MODEL.read(theirs)[0]
    if one.keys() != other.keys():
        raise ValueError(f"{ours} and {theirs} must have tensors of the same names.")
    return max(
        ((one[name] - other[name]).abs().max() / other[name].abs().max().clamp(min=1e-300)).item()
        for name in one
        if one[name].numel()
    )
