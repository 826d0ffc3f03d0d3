"""Progress of a series of fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from sswim.cli.console import messages


class Done(Protocol):
    """The result of a fit, or of another job."""

    @property
    def job(self) -> object:
        """The job, which prints as what was done."""


@contextmanager
def show_fits(n_fits: int) -> Iterator[Callable[[Done], None]]:
    """Show finished fits, the time left and the latest fit on the standard error stream.

    Yields:
        A function to call with the result of each finished fit.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("fits"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[latest]}", markup=False),
        console=messages,
    ) as bar:
        task = bar.add_task("fits", total=n_fits, latest="")
        yield lambda row: bar.update(task, advance=1, latest=str(row.job))
