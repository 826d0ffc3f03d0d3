"""Trainings whose processes are killed: they can be resumed, and the others end with a message."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from launches import (
    PATIENCE,
    fit_arguments,
    kill,
    launch,
    python_command,
    run,
    torchrun_command,
    wait_until,
    workers,
    write_rows,
)

SMALL = ("--depth=1", "--n-components=16", "--n-pseudo=4", "--max-iter=60", "--timeout=30")

OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Without it processes that torchrun starts again may find addresses of those that were killed.

See https://github.com/pytorch/pytorch/issues/135712.
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("table") / "rows", 4000)


def keeping(folder: Path) -> tuple[str, ...]:
    return (*SMALL, f"--checkpoints={folder}", "--every=2", "--resume")


def wait_for_a_checkpoint(folder: Path) -> None:
    wait_until(lambda: any(folder.glob("*.safetensors")))


@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_killed_is_resumed(n: int, table: Path, tmp_path: Path) -> None:
    """By the same command, or by torchrun."""
    expected, model, kept = tmp_path / "expected", tmp_path / "model", tmp_path / "kept"
    starts = python_command()
    starts_again = starts
    if n > 1:
        starts = torchrun_command(n, "--standalone")
        starts_again = torchrun_command(n, "--standalone", "--max-restarts=1")
    run([*starts, *fit_arguments(table, expected, *SMALL)], tmp_path / "log")
    command = [*starts_again, *fit_arguments(table, model, *keeping(kept))]
    with launch(command, tmp_path / "log", OWN_STORE) as process:
        wait_for_a_checkpoint(kept)
        kill([process.pid if n == 1 else workers(process.pid)[1]])
        assert process.wait(PATIENCE) == (-9 if n == 1 else 0)
    if n == 1:
        assert not model.exists()
        run(command, tmp_path / "log")
    assert "resumed" in (tmp_path / "log").read_text()
    assert model.read_bytes() == expected.read_bytes()
    assert not kept.exists()


Launched = tuple[subprocess.Popen[bytes], Path]


@contextmanager
def by_hand(*commands: list[str], folder: Path) -> Iterator[list[Launched]]:
    """Start processes that train together without torchrun, and yield them with their logs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(len(commands)), "MASTER_ADDR": "127.0.0.1"}
    with ExitStack() as stack:
        processes = []
        for rank, command in enumerate(commands):
            log = folder / f"log-{rank}"
            variables = {**shared, "MASTER_PORT": str(port), "RANK": str(rank)}
            processes.append((stack.enter_context(launch(command, log, variables)), log))
        yield processes


@pytest.mark.parametrize("survivor", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_survivor_ends_with_a_sentence(survivor: int, table: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    command = [*python_command(), *fit_arguments(table, tmp_path / "model", *keeping(kept))]
    with by_hand(command, command, folder=tmp_path) as processes:
        wait_for_a_checkpoint(kept)
        kill([processes[1 - survivor][0].pid])
        process, log = processes[survivor]
        assert process.wait(PATIENCE) == 1
    words = log.read_text()
    start = f"Error in process {survivor}: Another of the 2 processes no longer answers"
    assert start in words
    assert "a run with checkpoints can be resumed" in words
    assert "Traceback" not in words


JOIN_AND_LEAVE = """
from pathlib import Path
import torch
from sswim.distributed.processes import join_processes

with join_processes(torch.device("cpu")) as processes:
    processes.all_gather(0)
    import torch._dynamo  # as the first optimiser does
print(*sorted(path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")))
"""


def test_no_thread_of_a_group_outlives_it(tmp_path: Path) -> None:
    """Such a thread may abort Python as it ends, after all went well."""
    command = [*python_command(), "-c", JOIN_AND_LEAVE]
    with by_hand(command, command, folder=tmp_path) as processes:
        for process, log in processes:
            assert process.wait(PATIENCE) == 0, log.read_text()
            assert "gloo" not in log.read_text()


def test_one_that_nobody_joins_ends_with_a_sentence(table: Path, tmp_path: Path) -> None:
    command = [*python_command(), *fit_arguments(table, tmp_path / "model", *SMALL, "--timeout=1")]
    nobody = ["true"]
    with by_hand(command, nobody, folder=tmp_path) as processes:
        process, log = processes[0]
        assert process.wait(PATIENCE) == 1
    words = log.read_text()
    assert "Error in process 0: All 2 processes must find each other" in words
    assert "Traceback" not in words
