"""Ctrl-C and SIGTERM: training keeps the model so far, everything else ends with one line."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from sswim.cli.console import messages, say
from sswim.cli.entry import handle_signals, interrupt

if TYPE_CHECKING:
    from sswim.members.history import Step

STOPPED = 3
"""Exit code of a fit that was stopped and has written the model so far."""


class Interruption:
    """A callback of ``SSWIMRegressor`` that stops training once a signal asked for it."""

    requested = False
    """Whether a signal asked for the end."""
    begun = False
    """Whether a member has made a step, so that there is a model."""
    stopped = False
    """Whether training ended for it; a signal after the last step changes nothing."""

    def __call__(self, member: int, step: Step) -> bool:
        """Return whether training should stop after this step."""
        self.begun = self.begun or step.index > 0
        self.stopped = self.stopped or (self.requested and self.begun)
        return self.stopped


@contextmanager
def stop_on_interrupt() -> Iterator[Interruption]:
    """Stop training at the first signal, and the program at the second.

    Before the first step there is no model, and the first signal ends the program.

    Raises:
        KeyboardInterrupt: At the signal that ends the program.
    """
    interruption = Interruption()

    def stop(number: int, frame: FrameType | None) -> None:
        if interruption.requested or not interruption.begun:
            interrupt(number, frame)
        interruption.requested = True
        say(messages, "Stopping after this step and keeping the best; Ctrl-C again to give up.")

    previous = handle_signals(stop)
    try:
        yield interruption
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
