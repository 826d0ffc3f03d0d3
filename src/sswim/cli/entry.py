"""Start of the command ``sswim``, and what Ctrl-C and SIGTERM do.

Signals are handled before anything large is imported. While a model is trained, the first signal
keeps the model so far; at any other time it ends the command with one line.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from sswim.members.checkpoints import Step

WORDS = {signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}
"""The only line that a command prints when such a signal ends it."""

STOPPED = 3
"""Exit code of a fit that was stopped and has written the model so far."""

Handler = Callable[[int, FrameType | None], Any] | signal.Handlers


class Interrupted(KeyboardInterrupt):
    """A signal ends the command."""

    received: int | None = None
    """The signal that has ended the command, even if other code replaced the exception."""


def main() -> None:
    """Run the command, and exit with code 130 after Ctrl-C and 143 after SIGTERM."""
    handle_signals(end_at_once)  # modules that are interrupted may raise anything
    from sswim.cli.app import app

    handle_signals(interrupt)
    try:
        app(prog_name="sswim")
    except BaseException:
        handle_signals(signal.SIG_IGN)  # it has ended: no signal changes the exit code
        number = Interrupted.received
        if number is None:
            raise
        print(WORDS[signal.Signals(number)], file=sys.stderr)
        sys.exit(128 + number)


def handle_signals(handler: Handler) -> dict[int, Any]:
    """Set the handler of Ctrl-C and SIGTERM, and return the handlers before.

    A signal that the parent process ignores stays ignored. torchrun sends SIGTERM if another
    process has failed, after which nothing can be kept.
    """
    numbers = [signal.SIGINT] if "TORCHELASTIC_RUN_ID" in os.environ else list(WORDS)
    before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
    handled = {n: old for n, old in before.items() if old not in (signal.SIG_IGN, None)}
    for number in handled:
        signal.signal(number, handler)
    return handled


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """End the command in an orderly way: incomplete files are removed."""
    handle_signals(end_at_once)
    Interrupted.received = number
    raise Interrupted


def end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """End the process here and now."""
    os.write(2, f"{WORDS[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


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
    from sswim.cli.console import messages, say

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
