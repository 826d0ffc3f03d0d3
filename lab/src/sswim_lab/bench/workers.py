"""Worker processes that do one job after another.

A worker that dies loses only its current job. A worker whose GPU has failed is replaced, because
every later job would fail in it too.
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


def run_jobs(
    do: Callable[[Job], Result],
    jobs: Iterable[Job],
    n_workers: int,
    failed: Callable[[Job, str], Result],
) -> Generator[Result, None, None]:
    """Yield the results of jobs: in this process if one worker is enough, else from several.

    Args:
        do: The function that does a job; it must be picklable.
        jobs: The arguments of ``do``, one at a time.
        n_workers: The number of processes.
        failed: Makes the result of a job whose process died, from the job and the reason.
    """
    if n_workers == 1:
        yield from map(do, jobs)
    else:
        yield from run_in_processes(
            do, jobs, n_workers, lambda job, code: failed(job, _reason_of_death(code))
        )


def run_in_processes(
    do: Callable[[Job], Result],
    jobs: Iterable[Job],
    n_workers: int,
    died: Callable[[Job, int | None], Result],
) -> Generator[Result, None, None]:
    """Yield the results of jobs as worker processes finish them.

    Args:
        do: The function that does a job; it must be picklable.
        jobs: The arguments of ``do``, one at a time.
        n_workers: The number of processes, which share the cores.
        died: Makes the result of a job whose process died, from the job and the exit code.
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
                    with suppress(OSError):  # a dead process is noticed below
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
        for process, _ in busy.values():  # after Ctrl-C, unfinished jobs are given up
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
    theirs.close()  # so that recv raises EOFError when the process ends
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
        usable = _is_usable()
        connection.send((result, usable))


def _is_usable() -> bool:
    """Return whether this process can do more jobs: a GPU error persists in its process."""
    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError:
            return False
    return True


def _reason_of_death(code: int | None) -> str:
    cause = ", often because memory ran out" if code == -signal.SIGKILL else ""
    return f"ProcessDied: its exit code is {code}{cause}"


@contextmanager
def _threads_of_children(threads: int) -> Iterator[None]:
    """Set the variables from which libraries in new processes take their number of threads."""
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
