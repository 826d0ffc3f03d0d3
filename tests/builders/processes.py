"""Several processes on this machine, for tests of their communication."""

from __future__ import annotations

import functools
import multiprocessing
import pickle
import tempfile
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from sswim.distributed.processes import Processes

PATIENCE = 120.0
"""Seconds for which a test waits for processes: many times more than they need."""


@functools.cache
def fork_server() -> ForkServerContext:
    """Return a way to start processes that imports the package once, not in every process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["sswim.estimator.regressor", "torch.distributed"])
    return context


def run_processes(
    n: int, function: Callable[..., Any], *arguments: Any, timeout: float = 60.0
) -> list[Any]:
    """Call a function in each of n processes, and return all results.

    The result of a call that fails is the error's type and text.

    Args:
        n: Number of processes.
        function: A function of a module, which takes ``Processes`` and the arguments.
        *arguments: Further arguments of the function.
        timeout: Seconds after which a process that does not answer counts as lost.
    """
    context = fork_server()
    with tempfile.TemporaryDirectory() as folder:
        pipes, workers = [], []
        for rank in range(n):
            receive, send = context.Pipe(duplex=False)
            task = (rank, n, folder, timeout, send, function, arguments)
            worker = context.Process(target=_work, args=task)
            worker.start()
            send.close()
            pipes.append(receive)
            workers.append(worker)
        results: list[Any] = []
        for pipe in pipes:
            try:
                results.append(pickle.loads(pipe.recv_bytes()) if pipe.poll(PATIENCE) else "mute")
            except EOFError:
                results.append("died")
        for worker in workers:
            worker.join(PATIENCE)
            worker.kill()
    return results


def _work(
    rank: int,
    n: int,
    folder: str,
    timeout: float,
    pipe: Any,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    torch.set_num_threads(1)
    try:
        if n > 1:
            dist.init_process_group(
                "gloo",
                init_method=(Path(folder) / "store").as_uri(),
                rank=rank,
                world_size=n,
                timeout=timedelta(seconds=timeout),
            )
        pipe.send_bytes(pickle.dumps(function(Processes(rank, n), *arguments)))
    except Exception as error:
        traceback.print_exc()
        pipe.send_bytes(pickle.dumps((type(error).__name__, str(error))))
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
