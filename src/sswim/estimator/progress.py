"""Progress of predictions and trainings: how much is done, and how long the rest will take."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from sswim.members.checkpoints import MemberCallback, Step

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 10.0
"""Smallest time from one line to the next."""

LINE_SHARE = 0.05
"""Smallest share of the task from one line to the next."""


def prediction_progress(say: Callable[[str], object] | None, total: int) -> Callable[[int], None]:
    """Return a function that takes the amount done since its last call and prints lines at times.

    Args:
        say: Prints a line of text; None prints nothing.
        total: Total amount, in rows or in bytes.
    """
    interval, began, done = LineInterval(), perf_counter(), 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        if say is not None and 0 < done < total and interval.over(done / total):
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


@dataclass
class _MemberPace:
    """How long the steps of one member take.

    Its first report is not measured: it includes loading libraries, choosing algorithms and the
    wait for its turn.
    """

    kind: int
    planned: int
    """Number of steps if it does not end early."""
    step: Step
    """The latest step."""
    heard: float
    """Time of the latest step."""
    share: float = 0.0
    """Share of the time since the latest step."""
    n_measured: int = 0
    seconds: float = 0.0
    """Sum of the shares of all measured steps."""
    slowest: float = 0.0

    def is_running(self, now: float) -> bool:
        if self.step.index >= self.planned:
            return False
        return not self.n_measured or now - self.heard <= SILENCE * self.slowest


class ProgressTracker:
    """The steps of a training so far, and an estimate of the time left.

    The members that are running at a time share it equally, so the shares of one kind over its
    steps are the seconds by which a step of this kind delays the end, whether members train in
    turn, in batches or in parallel. There is no estimate until every kind was measured.
    """

    def __init__(
        self,
        n_members: int,
        n_steps: Sequence[int],
        deadline: float = math.inf,
        kinds: Sequence[int] = (),
    ) -> None:
        """Begin to count; see :func:`show_progress`."""
        self.n_members, self.n_steps, self.deadline = n_members, n_steps, deadline
        self._kinds = kinds or [0] * len(n_steps)
        self.first: Step | None = None
        """First step of this run."""
        self.settled = False
        """Whether every member that is trained at the same time has reported a step."""
        self._resumed = False
        self._opened = self._now = perf_counter()
        self._members: dict[int, _MemberPace] = {}

    def add(self, member: int, step: Step) -> None:
        """Record a step; the first step of a resumed run has an index above 0."""
        now = perf_counter()
        running = [pace for pace in self._members.values() if pace.is_running(now)]
        for pace in running:
            pace.share += (now - self._now) / len(running)
        self._now = now
        again = member in self._members
        if not again:
            place = member % len(self.n_steps)
            self._members[member] = _MemberPace(self._kinds[place], self.n_steps[place], step, now)
        pace = self._members[member]
        if again:
            pace.n_measured += 1
            pace.seconds += pace.share
            pace.slowest = max(pace.slowest, now - pace.heard)
        pace.step, pace.heard, pace.share = step, now, 0.0
        self.n_members = max(self.n_members, len(self._members))
        self.settled = self.settled or again or len(self._members) >= self.n_members
        self._resumed = self._resumed or (step.index > 0 and not again)
        finished_before = step.index == pace.planned > 0 and not again
        if self.first is None and not finished_before:
            self.first = step

    def _estimates(self) -> dict[int, float]:
        """Return the seconds left of each kind that has steps left; NaN if it was not measured."""
        # A process that trains some of the members trains about its share of every kind.
        left: defaultdict[int, float] = defaultdict(float)
        for kind, n_steps in zip(self._kinds, self.n_steps, strict=True):
            left[kind] += n_steps * self.n_members / len(self.n_steps)
        for pace in self._members.values():
            left[pace.kind] -= pace.step.index if pace.is_running(self._now) else pace.planned
        seconds_left = {}
        for kind in (kind for kind, n_steps in left.items() if n_steps > 0):
            members = [pace for pace in self._members.values() if pace.kind == kind]
            seconds = math.fsum(pace.seconds for pace in members)
            most = max((pace.n_measured for pace in members), default=0)
            measured = most >= ENOUGH_STEPS or (most >= 2 and seconds >= ENOUGH_SECONDS)
            n_measured = sum(pace.n_measured for pace in members)
            seconds_left[kind] = left[kind] * (seconds / n_measured) if measured else math.nan
        return seconds_left

    @property
    def seconds(self) -> float:
        """Seconds since this run began, including the work before the first step."""
        return perf_counter() - self._opened

    @property
    def founded(self) -> bool:
        """Whether enough steps of every kind were measured for an estimate."""
        return bool(self._members) and not any(map(math.isnan, self._estimates().values()))

    @property
    def seconds_left(self) -> float:
        """Estimated seconds to the end, once this is founded."""
        left = math.fsum(n for n in self._estimates().values() if not math.isnan(n))
        return max(0.0, min(left, self.deadline - perf_counter()))

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
        return sum(pace.step.index for pace in self._members.values())

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
        return f"{text}, objective {self.objective}" if self._members else text

    @property
    def objective(self) -> str:
        """Text with the mean objective of the members."""
        total = sum(pace.step.value for pace in self._members.values())
        return f"{total / len(self._members):.4f}"

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
def show_progress(
    verbose: bool,
    n_members: int,
    n_steps: Sequence[int],
    callback: MemberCallback | None = None,
    deadline: float = math.inf,
    kinds: Sequence[int] = (),
) -> Iterator[MemberCallback]:
    """Yield a callback that shows progress if verbose, and calls the user's callback.

    Shown are steps, the members' mean objective and the time left, on the standard error stream: a
    terminal shows a bar, and the log of a job gets a few lines.

    Args:
        verbose: Whether to show progress.
        n_members: Number of members that this process trains.
        n_steps: Number of steps of every member, or of those of all processes.
        callback: The user's callback; returning True ends the training.
        deadline: Value of ``perf_counter`` after which training ends.
        kinds: Number of the kind of each member; by default all members are of one kind.
    """
    tracker = ProgressTracker(n_members, n_steps, deadline, kinds)

    def call(member: int, step: Step) -> object:
        show(member, step)
        ends = callback is not None and callback(member, step) is True
        return ends or perf_counter() > deadline

    with _display(tracker) if verbose else nullcontext(lambda member, step: None) as show:
        yield call


def _display(tracker: ProgressTracker) -> AbstractContextManager[Callable[[int, Step], None]]:
    """Return the bar of a terminal, or the lines of a log."""
    from rich.console import Console  # noqa: PLC0415 (only this needs rich)

    console = Console(stderr=True)
    # rich may be told to colour what goes to a file, which is still not a terminal.
    moving = console.is_jupyter or (console.is_interactive and console.file.isatty())
    return _bar(tracker, console) if moving else _lines(tracker)


@contextmanager
def _bar(tracker: ProgressTracker, console: Console) -> Iterator[Callable[[int, Step], None]]:
    from rich import progress  # noqa: PLC0415 (only this needs rich)

    with progress.Progress(
        progress.TextColumn("training"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("objective {task.fields[objective]}"),
        # rich's own estimate needs two steps within half a minute.
        progress.TextColumn("{task.fields[time]}", style="progress.remaining"),
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
