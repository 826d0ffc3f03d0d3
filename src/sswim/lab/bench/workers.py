"""Processes that do one job after another; one that dies takes only its job with it.

One whose GPU has failed is replaced, because there nothing would work any more.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

import torch

Job = TypeVar("Job")
Result = TypeVar("Result")

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_in_processes(
    do: Callable[[Job], Result],
    jobs: Iterable[Job],
    n_workers: int,
    died: Callable[[Job, int | None], Result],
) -> Generator[Result, None, None]:
    """Results as they come.

    Args:
        do: What to do with a job, a function that can be sent to another process.
        jobs: What it is called with.
        n_workers: Processes, which share the cores.
        died: The result of a job whose process died, of the job and the exit code.
    """
    threads = max(1, (os.cpu_count() or 1) // n_workers)
    waiting = deque(jobs)
    idle: dict[Connection, SpawnProcess] = {}
    busy: dict[Connection, tuple[SpawnProcess, Job]] = {}
    try:
        with _threads_of_children(threads):
            while waiting or busy:
                while waiting and len(busy) < n_workers:
                    connection, process = idle.popitem() if idle else _start(do, threads)
                    busy[connection] = process, waiting.popleft()
                    with suppress(OSError):  # that it died is seen below
                        connection.send(busy[connection][1])
                ready = wait(list(busy))
                for connection in [one for one in busy if one in ready]:
                    process, job = busy.pop(connection)
                    try:
                        result, usable = connection.recv()
                        if usable:
                            idle[connection] = process
                        else:
                            process.join()
                    except (EOFError, OSError):
                        process.join()
                        result = died(job, process.exitcode)
                    yield result
    finally:
        for process, _ in busy.values():  # as after Ctrl-C: the jobs under way are given up
            process.terminate()
        for connection in idle:
            connection.close()  # which ends the process
        for process in (*idle.values(), *(process for process, _ in busy.values())):
            process.join()


def _start(do: Callable[[Any], Any], threads: int) -> tuple[Connection, SpawnProcess]:
    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, do, threads))
    process.start()
    theirs.close()  # so that the end of the process is the end of what it sends
    return ours, process


def _work(connection: Connection, do: Callable[[Any], Any], threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    torch.set_num_threads(threads)
    usable = True
    while usable:
        try:
            job = connection.recv()
        except EOFError:
            return
        result = do(job)
        usable = _usable()
        connection.send((result, usable))


def _usable() -> bool:
    """Whether this process can go on: a GPU that failed once fails it in all that follows."""
    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return False
    return True


@contextmanager
def _threads_of_children(threads: int) -> Iterator[None]:
    """New processes read these variables when their libraries are loaded."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
