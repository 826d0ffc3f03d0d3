"""Long work in several processes at once, with a regular check that all are still running."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from contextlib import closing
from threading import Thread
from time import perf_counter
from typing import TypeVar

from sswim.distributed.processes import Processes

T = TypeVar("T")

HEARTBEAT_SECONDS = 60.0
"""Seconds between two checks: far fewer than the timeout of a process that does not answer."""


def run_with_heartbeat(processes: Processes, steps: Generator[None, None, None]) -> None:
    """Run the steps of this process while the other processes run theirs.

    An error in one process is raised in all of them, soon after it happens. A process that has
    finished its steps waits for the others, however long they take.

    Args:
        processes: The processes that call this function together.
        steps: Steps of this process, each shorter than a heartbeat.
    """

    def run_until_heartbeat() -> bool:
        """Run steps for one heartbeat; return whether there may be more of them."""
        end = perf_counter() + HEARTBEAT_SECONDS
        return any(perf_counter() >= end for _ in steps)

    with closing(steps):
        while any(processes.run_everywhere(run_until_heartbeat)):
            pass


def run_in_thread(processes: Processes, work: Callable[[], T]) -> T:
    """Run a function in a thread of this process while the other processes run theirs.

    The function may take any time. An error in one process, or its death, is raised in all of
    them, soon after it happens.

    Returns:
        The result of the function in this process.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    def steps() -> Generator[None, None, None]:
        while not wait([future], timeout=1.0).done:
            yield
        future.result()

    # Not a thread of a pool: Python would wait for its end when another process has failed.
    Thread(target=run, daemon=True).start()
    run_with_heartbeat(processes, steps())
    return future.result()
