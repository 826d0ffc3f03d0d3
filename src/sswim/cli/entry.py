"""Start of the command ``sswim``: handles signals before anything large is imported."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

WORDS = {signal.SIGINT: "Interrupted.", signal.SIGTERM: "Terminated."}
"""The only line that a command prints when such a signal ends it."""

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
    handled = {n: each for n, each in before.items() if each not in (signal.SIG_IGN, None)}
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
