"""Long work that several processes do side by side, each at its own pace."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from time import perf_counter

from sswim.processes import Processes

TURN_SECONDS = 60.0
"""After which processes hear of each other: far less than what they wait for an answer."""


def take_turns(processes: Processes, steps: Generator[None, None, None]) -> None:
    """Go through the steps of this process while the others go through theirs.

    An error of one is an error in all, soon after it happens. Whoever has no more steps waits for
    the others, however long they take.

    Args:
        processes: Which call this together.
        steps: Of this process, each shorter than a turn.
    """

    def turn() -> bool:
        end = perf_counter() + TURN_SECONDS
        return any(perf_counter() >= end for _ in steps)  # whether there may be more

    with closing(steps):
        while any(processes.together(turn)):
            pass
