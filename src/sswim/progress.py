"""A progress bar for training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sswim.training import Step


@contextmanager
def training_progress(n_members: int, n_steps: int) -> Iterator[Callable[[int, Step], None]]:
    """Show steps, the members' mean objective and time left on the standard error stream."""
    latest: dict[int, Step] = {}
    with Progress(
        TextColumn("training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("objective {task.fields[objective]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task("training", total=n_members * n_steps, objective="…")

        def show(member: int, step: Step) -> None:
            latest[member] = step
            completed = sum(each.index for each in latest.values())
            mean = sum(each.value for each in latest.values()) / len(latest)
            bar.update(task, completed=completed, objective=f"{mean:.4f}")

        yield show
        bar.update(task, completed=n_members * n_steps)
