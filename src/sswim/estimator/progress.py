"""How far a long task is, and how long the rest of it will take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sswim.training.history import Step

LINE_SECONDS = 10.0
LINE_SHARE = 0.05
"""From one line to the next at least: of time, and of the whole task."""


@contextmanager
def training_progress(n_members: int, n_steps: int) -> Iterator[Callable[[int, Step], None]]:
    """Show steps, the members' mean objective and time left on the standard error stream.

    As a bar on a terminal; elsewhere, as in the log of a job, as a few lines.
    """
    course = ProgressTracker(n_members, n_steps)
    console = Console(stderr=True)
    # Not what rich takes for a terminal: it could be told to colour what goes to a file.
    moving = console.is_jupyter or (console.is_interactive and console.file.isatty())
    with _bar(course, console) if moving else _lines(course) as show:
        yield show


class ProgressTracker:
    """The steps of a training so far, and what they tell of those to come.

    Members may be trained one after another, together or side by side: how long a step of one of
    them takes is the time of all steps, over their number. An estimate is better after a few steps,
    and where all members are alike.
    """

    def __init__(self, n_members: int, n_steps: int) -> None:
        self.n_members = n_members
        self.n_steps = n_steps
        self.first: Step | None = None
        """That this run has made."""
        self.settled = False
        """Whether all members that are trained at the same time have been heard of."""
        self._resumed = False
        self._opened = self._began = self._time = perf_counter()
        self._latest: dict[int, Step] = {}
        self._n_made = 0
        self._moment = 0.0
        self._pace = 0.0

    def add(self, member: int, step: Step) -> None:
        """Take note of a step; the first of a run that was resumed is not that of index 0."""
        again = member in self._latest
        self._latest[member] = step
        self.n_members = max(self.n_members, len(self._latest))
        self.settled = self.settled or again or len(self._latest) >= self.n_members
        self._resumed = self._resumed or (step.index > 0 and not again)
        if step.index == self.n_steps > 0 and not again:
            return  # an earlier run has made it, and all before it
        now = perf_counter()
        if self.first is None:
            self.first = step
            self._began = now - step.seconds / (step.index + 1)
        if not again:
            self._pace = (now - self._began) / (self._n_made + 1)
        elif step.seconds != self._moment:
            # Members that are trained together come together: of this step some are still to come.
            self._pace = (self._time - self._began) / self._n_made
        self._n_made += 1
        self._time, self._moment = now, step.seconds

    @property
    def seconds(self) -> float:
        """Since this run began, with what there was to do before the first step."""
        return perf_counter() - self._opened

    @property
    def seconds_left(self) -> float:
        """As the steps so far tell."""
        # The objective is evaluated before a member's first step, and after each.
        n_left = self.n_members * (self.n_steps + 1) - self.n_done - len(self._latest)
        return self._pace * n_left

    @property
    def n_done(self) -> int:
        """Steps of all members, with those of earlier runs."""
        return sum(step.index for step in self._latest.values())

    @property
    def n_all(self) -> int:
        """Steps of all members, if none ends early."""
        return self.n_members * self.n_steps

    @property
    def share(self) -> float:
        """How much of all steps is done."""
        return self.n_done / max(1, self.n_all)

    @property
    def state(self) -> str:
        """Steps and objective."""
        text = f"{self.n_done}/{self.n_all} steps"
        return f"{text}, objective {self.objective}" if self._latest else text

    @property
    def objective(self) -> str:
        """The mean of the members'."""
        return f"{sum(step.value for step in self._latest.values()) / len(self._latest):.4f}"

    @property
    def forecast(self) -> str:
        """What the first steps tell."""
        assert self.first is not None
        if self._resumed:
            left = in_words(self.seconds_left)
            return f"resumed at {self.n_done}/{self.n_all} steps; about {left} left"
        whole = in_words(self._pace * self.n_members * (self.n_steps + 1))
        members = "1 member" if self.n_members == 1 else f"{self.n_members} members"
        return (
            f"the first step took {in_words(self.first.seconds)}; "
            f"about {whole} for {self.n_steps} steps of {members}"
        )


@contextmanager
def _bar(course: ProgressTracker, console: Console) -> Iterator[Callable[[int, Step], None]]:
    with Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("objective {task.fields[objective]}"),
        # rich's own estimate needs two steps within half a minute.
        TextColumn("{task.fields[time]}", style="progress.remaining"),
        console=console,
    ) as bar:
        task = bar.add_task("training", total=course.n_all, objective="…", time="")

        def show(member: int, step: Step) -> None:
            course.add(member, step)
            time = f"about {in_words(course.seconds_left)} left"
            bar.update(task, completed=course.n_done, objective=course.objective, time=time)

        yield show
        bar.update(task, completed=course.n_all, time=f"took {in_words(course.seconds)}")


@contextmanager
def _lines(course: ProgressTracker) -> Iterator[Callable[[int, Step], None]]:
    pause, told = LineInterval(), False

    def show(member: int, step: Step) -> None:
        nonlocal told
        course.add(member, step)
        if not told and course.settled and course.first is not None:
            told = True
            pause.begin(course.share)
            _print(course.forecast)
        elif told and pause.over(course.share):
            times = f"{in_words(course.seconds)} elapsed, {in_words(course.seconds_left)} left"
            _print(f"{course.state}, {times}")

    yield show
    _print(f"{course.state}, took {in_words(course.seconds)}")


def _print(text: str) -> None:
    print(f"training: {text}", file=sys.stderr, flush=True)


def prediction_progress(say: Callable[[str], object], total: int) -> Callable[[int], None]:
    """What to call with how much of a total is done since the last call; it says so now and then.

    Args:
        say: Takes a line of text.
        total: Of rows, or of whatever they are measured by.
    """
    pause, began, done = LineInterval(), perf_counter(), 0

    def advance(amount: int) -> None:
        nonlocal done
        done += amount
        if 0 < done < total and pause.over(done / total):
            seconds = perf_counter() - began
            left = in_words(seconds / done * (total - done))
            say(f"predicting: {done / total:.0%}, {in_words(seconds)} elapsed, {left} left")

    return advance


class LineInterval:
    """From one line of text to the next, so that there are not too many of them."""

    def __init__(self) -> None:
        self.begin(0.0)

    def begin(self, share: float) -> None:
        """A line has been written, when so much of the whole task was done."""
        self._time, self._share = perf_counter(), share

    def over(self, share: float) -> bool:
        """Whether another line is to be written now; if so, the next pause begins."""
        is_over = perf_counter() - self._time >= LINE_SECONDS and share - self._share >= LINE_SHARE
        if is_over:
            self.begin(share)
        return is_over


def in_words(seconds: float) -> str:
    """A duration as one would say it: 45 s, 12 min, 3 h 20 min."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
