"""Lines of progress for long tasks: how much is done, and how long the rest will take.

Seconds per training step of each kind of member, and the time that the steps left will take.

Progress of a training: steps, objective and time left.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from sswim.members.checkpoints import MemberCallback, Step

if TYPE_CHECKING:
    from rich.console import Console

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


@contextmanager
def show_progress(
    verbose: bool,
    n_members: int,
    n_steps: Sequence[int],
    callback: MemberCallback | None,
    deadline: float = math.inf,
    kinds: Sequence[int] = (),
) -> Iterator[MemberCallback]:
    """Yield a callback that shows progress if verbose, and calls the user's callback.

    Args:
        verbose: Whether to show progress.
        n_members: Number of members that this process trains.
        n_steps: Number of steps of every member, or of those of all processes.
        callback: The user's callback; returning True ends the training.
        deadline: Value of ``perf_counter`` after which training ends.
        kinds: Number of the kind of each member; by default all members are of one kind.
    """
    callback = callback or (lambda member, step: None)

    def call(member: int, step: Step) -> object:
        return callback(member, step) is True or perf_counter() > deadline

    if not verbose:
        yield call
        return
    with training_progress(n_members, n_steps, deadline, kinds) as show:

        def show_and_call(member: int, step: Step) -> object:
            show(member, step)
            return call(member, step)

        yield show_and_call


@contextmanager
def training_progress(
    n_members: int,
    n_steps: int | Sequence[int],
    deadline: float = math.inf,
    kinds: Sequence[int] = (),
) -> Iterator[Callable[[int, Step], None]]:
    """Show steps, the members' mean objective and the time left on the standard error stream.

    A terminal shows a bar; the log of a job gets a few lines. See :class:`ProgressTracker`.
    """
    from rich.console import Console  # noqa: PLC0415 (only this needs rich)

    tracker = ProgressTracker(n_members, n_steps, deadline, kinds)
    console = Console(stderr=True)
    # rich may be told to colour what goes to a file, which is still not a terminal.
    moving = console.is_jupyter or (console.is_interactive and console.file.isatty())
    with _bar(tracker, console) if moving else _lines(tracker) as show:
        yield show


class ProgressTracker:
    """The steps of a training so far, and an estimate of the time left.

    The first steps take longer than others, and kinds of members differ. So there is no estimate
    until every kind was measured; see :class:`~sswim.estimator.progress.StepPace`.
    """

    def __init__(
        self,
        n_members: int,
        n_steps: int | Sequence[int],
        deadline: float = math.inf,
        kinds: Sequence[int] = (),
    ) -> None:
        """Begin to count.

        Args:
            n_members: Number of members that this process trains.
            n_steps: Number of steps of every member; one number if it is the same for all.
            deadline: Value of ``perf_counter`` after which training ends.
            kinds: Number of the kind of each member; by default all members are of one kind.
        """
        self.n_members = n_members
        self.n_steps = [n_steps] if isinstance(n_steps, int) else list(n_steps)
        self.deadline = deadline
        self.first: Step | None = None
        """First step of this run."""
        self.settled = False
        """Whether every member that is trained at the same time has reported a step."""
        self._resumed = False
        self._opened = perf_counter()
        self._latest: dict[int, Step] = {}
        self._pace = StepPace(n_members, self.n_steps, kinds or [0] * len(self.n_steps))

    def add(self, member: int, step: Step) -> None:
        """Record a step; the first step of a resumed run has an index above 0."""
        again = member in self._latest
        self._latest[member] = step
        self.n_members = max(self.n_members, len(self._latest))
        self.settled = self.settled or again or len(self._latest) >= self.n_members
        self._resumed = self._resumed or (step.index > 0 and not again)
        self._pace.add(member, step.index, perf_counter())
        finished_before = step.index == self.n_steps[member % len(self.n_steps)] > 0 and not again
        if self.first is None and not finished_before:
            self.first = step

    @property
    def seconds(self) -> float:
        """Seconds since this run began, including the work before the first step."""
        return perf_counter() - self._opened

    @property
    def founded(self) -> bool:
        """Whether enough steps of every kind were measured for an estimate."""
        return self._pace.founded

    @property
    def seconds_left(self) -> float:
        """Estimated seconds to the end, once this is founded."""
        return max(0.0, min(self._pace.seconds_left(), self.deadline - perf_counter()))

    @property
    def left(self) -> str:
        """Text with the time left, or with what is known of it; empty if nothing is."""
        if self.founded:
            return f"about {in_words(self.seconds_left)} left"
        if math.isfinite(self.deadline):
            return f"at most {in_words(max(0.0, self.deadline - perf_counter()))} left"
        measured = self.seconds_left
        return f"more than {in_words(measured)} left" if measured >= 1 else ""

    @property
    def n_done(self) -> int:
        """Number of steps of all members, including earlier runs."""
        return sum(step.index for step in self._latest.values())

    @property
    def n_all(self) -> int:
        """Number of steps of all members if none ends early."""
        return round(self.n_members * sum(self.n_steps) / len(self.n_steps))

    @property
    def share(self) -> float:
        """Share of all steps that is done."""
        return self.n_done / max(1, self.n_all)

    @property
    def state(self) -> str:
        """Text with the steps and the objective."""
        text = f"{self.n_done}/{self.n_all} steps"
        return f"{text}, objective {self.objective}" if self._latest else text

    @property
    def objective(self) -> str:
        """Text with the mean objective of the members."""
        return f"{sum(step.value for step in self._latest.values()) / len(self._latest):.4f}"

    @property
    def beginning(self) -> str:
        """Text with the size of the training, and how long its first step took."""
        assert self.first is not None
        if self._resumed:
            return f"resumed at {self.n_done}/{self.n_all} steps"
        members = "1 member" if self.n_members == 1 else f"{self.n_members} members"
        same = len(set(self.n_steps)) == 1
        steps = f"{self.n_steps[0] if same else f'{self.n_all:,}'} steps of {members}"
        return f"{steps}; the first took {in_words(self.first.seconds)}"


@contextmanager
def _bar(tracker: ProgressTracker, console: Console) -> Iterator[Callable[[int, Step], None]]:
    from rich.progress import (  # noqa: PLC0415 (only this needs rich)
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
    )

    with Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("objective {task.fields[objective]}"),
        # rich's own estimate needs two steps within half a minute.
        TextColumn("{task.fields[time]}", style="progress.remaining"),
        console=console,
    ) as bar:
        task = bar.add_task("training", total=tracker.n_all, objective="…", time="")

        def show(member: int, step: Step) -> None:
            tracker.add(member, step)
            objective, time = tracker.objective, tracker.left
            bar.update(task, completed=tracker.n_done, objective=objective, time=time)

        yield show
        bar.update(task, completed=tracker.n_all, time=f"took {in_words(tracker.seconds)}")


@contextmanager
def _lines(tracker: ProgressTracker) -> Iterator[Callable[[int, Step], None]]:
    interval, begun, estimated = LineInterval(), False, False

    def show(member: int, step: Step) -> None:
        nonlocal begun, estimated
        tracker.add(member, step)
        if not begun:
            if tracker.settled and tracker.first is not None:
                begun = True
                interval.restart(tracker.share)
                _print(tracker.beginning)
            return
        # The first estimate is not kept waiting, if there is time to read it.
        due = not estimated and tracker.founded and tracker.seconds_left >= LINE_SECONDS
        if due:
            interval.restart(tracker.share)
        if due or interval.over(tracker.share):
            estimated = estimated or tracker.founded
            times = filter(None, (f"{in_words(tracker.seconds)} elapsed", tracker.left))
            _print(", ".join((tracker.state, *times)))

    yield show
    _print(f"{tracker.state}, took {in_words(tracker.seconds)}")


def _print(text: str) -> None:
    print(f"training: {text}", file=sys.stderr, flush=True)
