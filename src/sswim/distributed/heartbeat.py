"""Long work that several processes do side by side, each at its own pace."""

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
"""After which processes hear of each other: far less than what they wait for an answer."""


def run_with_heartbeat(processes: Processes, steps: Generator[None, None, None]) -> None:
    """Go through the steps of this process while the others go through theirs.

    An error of one is an error in all, soon after it happens. Whoever has no more steps waits for
    the others, however long they take.

    Args:
        processes: Which call this together.
        steps: Of this process, each shorter than a turn.
    """

    def turn() -> bool:
        end = perf_counter() + HEARTBEAT_SECONDS
        return any(perf_counter() >= end for _ in steps)  # whether there may be more

    with closing(steps):
        while any(processes.run_everywhere(turn)):
            pass


def run_in_thread(processes: Processes, work: Callable[[], T]) -> T:
    """What work gives in this process, that takes as long as it takes while the others do theirs.

    An error of one, or its end, is an error in all, soon after it happens.
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

    # Not one of a pool, for whose end Python would wait when another process has failed.
    Thread(target=run, daemon=True).start()
    run_with_heartbeat(processes, steps())
    return future.result()
