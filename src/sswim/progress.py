"""A progress bar for training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sswim.training import Step


@contextmanager
def training_progress(n_members: int, n_steps: int) -> Iterator[Callable[[int, Step], None]]:
    """Show steps, objective and time left on the standard error stream."""
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
            bar.update(task, completed=member * n_steps + step.index, objective=f"{step.value:.4f}")

        yield show
        bar.update(task, completed=n_members * n_steps)
