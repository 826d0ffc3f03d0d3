"""Progress of a training: steps, objective and time left."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from sswim.estimator.progress import LineInterval, in_words
from sswim.training.history import MemberCallback, Step

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def show_progress(
    verbose: bool,
    n_members: int,
    n_steps: Sequence[int],
    callback: MemberCallback | None,
    deadline: float = math.inf,
) -> Iterator[MemberCallback]:
    """Yield a callback that shows progress if verbose, and calls the user's callback.

    Args:
        verbose: Whether to show progress.
        n_members: Number of members that this process trains.
        n_steps: Number of steps of every member, or of those of all processes.
        callback: The user's callback; returning True ends the training.
        deadline: Value of ``perf_counter`` after which training ends.
    """
    callback = callback or (lambda member, step: None)

    def call(member: int, step: Step) -> object:
        return callback(member, step) is True or perf_counter() > deadline

    if not verbose:
        yield call
        return
    with training_progress(n_members, n_steps, deadline) as show:

        def show_and_call(member: int, step: Step) -> object:
            show(member, step)
            return call(member, step)

        yield show_and_call


@contextmanager
def training_progress(
    n_members: int, n_steps: int | Sequence[int], deadline: float = math.inf
) -> Iterator[Callable[[int, Step], None]]:
    """Show steps, the members' mean objective and the time left on the standard error stream.

    A terminal shows a bar; the log of a job gets a few lines. See :class:`ProgressTracker`.
    """
    from rich.console import Console  # noqa: PLC0415 (only this needs rich)

    tracker = ProgressTracker(n_members, n_steps, deadline)
    console = Console(stderr=True)
    # rich may be told to colour what goes to a file, which is still not a terminal.
    moving = console.is_jupyter or (console.is_interactive and console.file.isatty())
    with _bar(tracker, console) if moving else _lines(tracker) as show:
        yield show


class ProgressTracker:
    """The steps of a training so far, and an estimate of the time left.

    Members may be trained one after another, in batches or in parallel, so the time of one step is
    the time of all steps over their number. The estimate is better after a few steps, and if all
    members are alike.
    """

    def __init__(
        self, n_members: int, n_steps: int | Sequence[int], deadline: float = math.inf
    ) -> None:
        """Begin to count.

        Args:
            n_members: Number of members that this process trains.
            n_steps: Number of steps of every member; one number if it is the same for all.
            deadline: Value of ``perf_counter`` after which training ends.
        """
        self.n_members = n_members
        self.n_steps = [n_steps] if isinstance(n_steps, int) else list(n_steps)
        self.deadline = deadline
        self.first: Step | None = None
        """First step of this run."""
        self.settled = False
        """Whether every member that is trained at the same time has reported a step."""
        self._resumed = False
        self._opened = self._began = self._time = perf_counter()
        self._latest: dict[int, Step] = {}
        self._n_made = 0
        self._moment = 0.0
        self._pace = 0.0

    def add(self, member: int, step: Step) -> None:
        """Record a step; the first step of a resumed run has an index above 0."""
        again = member in self._latest
        self._latest[member] = step
        self.n_members = max(self.n_members, len(self._latest))
        self.settled = self.settled or again or len(self._latest) >= self.n_members
        self._resumed = self._resumed or (step.index > 0 and not again)
        if step.index == self.n_steps[member % len(self.n_steps)] > 0 and not again:
            return  # an earlier run has finished this member
        now = perf_counter()
        if self.first is None:
            self.first = step
            self._began = now - step.seconds / (step.index + 1)
        if not again:
            self._pace = (now - self._began) / (self._n_made + 1)
        elif step.seconds != self._moment:
            # Members of a batch report together: others may still report this step.
            self._pace = (self._time - self._began) / self._n_made
        self._n_made += 1
        self._time, self._moment = now, step.seconds

    @property
    def seconds(self) -> float:
        """Seconds since this run began, including the work before the first step."""
        return perf_counter() - self._opened

    @property
    def seconds_left(self) -> float:
        """Estimated seconds to the end."""
        # The objective is evaluated before a member's first step, and after each.
        n_left = self.n_all + self.n_members - self.n_done - len(self._latest)
        return max(0.0, min(self._pace * n_left, self.deadline - perf_counter()))

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
    def forecast(self) -> str:
        """Text with the estimate from the first steps."""
        assert self.first is not None
        if self._resumed:
            left = in_words(self.seconds_left)
            return f"resumed at {self.n_done}/{self.n_all} steps; about {left} left"
        whole = self._pace * (self.n_all + self.n_members)
        whole = min(whole, self.deadline - self._opened)
        members = "1 member" if self.n_members == 1 else f"{self.n_members} members"
        same = len(set(self.n_steps)) == 1
        steps = f"{self.n_steps[0] if same else f'{self.n_all:,}'} steps of {members}"
        return (
            f"the first step took {in_words(self.first.seconds)}; "
            f"about {in_words(whole)} for {steps}"
        )


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
            time = f"about {in_words(tracker.seconds_left)} left"
            bar.update(task, completed=tracker.n_done, objective=tracker.objective, time=time)

        yield show
        bar.update(task, completed=tracker.n_all, time=f"took {in_words(tracker.seconds)}")


@contextmanager
def _lines(tracker: ProgressTracker) -> Iterator[Callable[[int, Step], None]]:
    interval, forecast_printed = LineInterval(), False

    def show(member: int, step: Step) -> None:
        nonlocal forecast_printed
        tracker.add(member, step)
        if not forecast_printed and tracker.settled and tracker.first is not None:
            forecast_printed = True
            interval.restart(tracker.share)
            _print(tracker.forecast)
        elif forecast_printed and interval.over(tracker.share):
            times = f"{in_words(tracker.seconds)} elapsed, {in_words(tracker.seconds_left)} left"
            _print(f"{tracker.state}, {times}")

    yield show
    _print(f"{tracker.state}, took {in_words(tracker.seconds)}")


def _print(text: str) -> None:
    print(f"training: {text}", file=sys.stderr, flush=True)
