"""Lines of progress for long tasks: how much is done, and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

LINE_SECONDS = 10.0
"""Smallest time from one line to the next."""

LINE_SHARE = 0.05
"""Smallest share of the task from one line to the next."""


def prediction_progress(say: Callable[[str], object], total: int) -> Callable[[int], None]:
    """Return a function that takes the amount done since its last call and prints lines at times.

    Args:
        say: Prints a line of text.
        total: Total amount, in rows or in bytes.
    """
    interval, began, done = LineInterval(), perf_counter(), 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        if 0 < done < total and interval.over(done / total):
            seconds = perf_counter() - began
            left = in_words(seconds / done * (total - done))
            say(f"predicting: {done / total:.0%}, {in_words(seconds)} elapsed, {left} left")

    return advance


class LineInterval:
    """Decides when to print the next line of progress."""

    def __init__(self) -> None:
        self.restart(0.0)

    def restart(self, share: float) -> None:
        """Note that a line was printed when this share of the task was done."""
        self._time, self._share = perf_counter(), share

    def over(self, share: float) -> bool:
        """Return whether to print a line now; if so, the next interval begins."""
        is_over = perf_counter() - self._time >= LINE_SECONDS and share - self._share >= LINE_SHARE
        if is_over:
            self.restart(share)
        return is_over


def in_words(seconds: float) -> str:
    """Return a duration as text: 45 s, 12 min, 3 h 20 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
