"""A clock for tests of durations."""

from __future__ import annotations


class Clock:
    """A clock whose time passes only when a test changes it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now
