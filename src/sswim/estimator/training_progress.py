"""Progress of a training: steps, objective and time left."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING

from sswim.estimator.progress import LINE_SECONDS, LineInterval, in_words
from sswim.estimator.step_pace import StepPace
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
    until every kind was measured; see :class:`~sswim.estimator.step_pace.StepPace`.
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
