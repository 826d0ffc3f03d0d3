"""Seconds per training step of each kind of member, and the time that the steps left will take."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

ENOUGH_STEPS = 10
"""Steps of a member after its first that tell how long a step of its kind takes."""

ENOUGH_SECONDS = 10.0
"""Seconds of a kind's steps that tell as much, if there are at least two of them."""

SILENCE = 5.0
"""A member that is silent for this many times its slowest step has ended."""


class StepPace:
    """Measures how long steps take while members train in turn, in batches or in parallel.

    The members that are running at a time share it equally, so the shares of one kind over its
    steps are the seconds by which a step of this kind delays the end. A member's first report is
    not measured: it includes loading libraries, choosing algorithms and the wait for its turn.
    """

    def __init__(self, n_members: int, n_steps: Sequence[int], kinds: Sequence[int]) -> None:
        """Begin to measure.

        Args:
            n_members: Number of members that this process trains.
            n_steps: Number of steps of every member of all processes.
            kinds: Number of the kind of each of these members.
        """
        self._n_members = n_members
        self._n_steps, self._kinds = n_steps, kinds
        self._index: dict[int, int] = {}
        self._heard: dict[int, float] = {}
        self._slowest: dict[int, float] = {}
        self._share: defaultdict[int, float] = defaultdict(float)
        self._measured: Counter[int] = Counter()
        self._seconds: defaultdict[int, float] = defaultdict(float)
        self._steps: Counter[int] = Counter()
        self._now = 0.0

    def add(self, member: int, index: int, now: float) -> None:
        """Record that a member has made its step of this index."""
        running = [each for each in self._index if self._is_running(each, now)]
        for each in running:
            self._share[each] += (now - self._now) / len(running)
        kind, again = self._kind(member), member in self._index
        if again:
            self._measured[member] += 1
            self._steps[kind] += 1
            self._seconds[kind] += self._share[member]
            self._slowest[member] = max(self._slowest.get(member, 0.0), now - self._heard[member])
        self._share[member] = 0.0
        self._index[member], self._heard[member], self._now = index, now, now

    @property
    def founded(self) -> bool:
        """Whether every kind with steps left has been measured."""
        return bool(self._index) and all(map(self._is_measured, self._left()))

    def seconds_left(self) -> float:
        """Return the estimated seconds that the steps left of all measured kinds will take."""
        paces = {
            kind: self._seconds[kind] / self._steps[kind]
            for kind in self._steps
            if self._is_measured(kind)
        }
        return math.fsum(n_left * paces.get(kind, 0.0) for kind, n_left in self._left().items())

    def _left(self) -> dict[int, float]:
        """Return the number of steps left of each kind that has any."""
        # A process that trains some of the members trains about its share of every kind.
        share = max(self._n_members, len(self._index)) / len(self._n_steps)
        left: defaultdict[int, float] = defaultdict(float)
        for kind, n_steps in zip(self._kinds, self._n_steps, strict=True):
            left[kind] += n_steps * share
        for member, index in self._index.items():
            ended = not self._is_running(member, self._now)
            left[self._kind(member)] -= self._planned(member) if ended else index
        return {kind: number for kind, number in left.items() if number > 0}

    def _is_measured(self, kind: int) -> bool:
        most = max((n for each, n in self._measured.items() if self._kind(each) == kind), default=0)
        return most >= ENOUGH_STEPS or (most >= 2 and self._seconds[kind] >= ENOUGH_SECONDS)

    def _is_running(self, member: int, now: float) -> bool:
        if self._index[member] >= self._planned(member):
            return False
        slowest = self._slowest.get(member)
        return slowest is None or now - self._heard[member] <= SILENCE * slowest

    def _kind(self, member: int) -> int:
        return self._kinds[member % len(self._kinds)]

    def _planned(self, member: int) -> int:
        return self._n_steps[member % len(self._n_steps)]
