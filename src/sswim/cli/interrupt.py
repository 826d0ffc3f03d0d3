"""Ctrl-C during training: stop after the current step and keep the model."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from sswim.cli.console import messages, say

if TYPE_CHECKING:
    from sswim.training.history import Step


class Interruption:
    """A callback of ``SSWIMRegressor`` that stops training once Ctrl-C was pressed."""

    requested = False

    def __call__(self, member: int, step: Step) -> bool:
        """Return whether training should stop after this step."""
        return self.requested


@contextmanager
def stop_on_interrupt() -> Iterator[Interruption]:
    """Stop training at the first Ctrl-C, and the program at the second."""
    interruption = Interruption()
    previous = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        interruption.requested = True
        signal.signal(signal.SIGINT, previous)
        say(messages, "Stopping after this step and keeping the best; Ctrl-C again to give up.")

    signal.signal(signal.SIGINT, stop)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGINT, previous)
