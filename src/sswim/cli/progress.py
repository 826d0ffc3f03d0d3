"""Progress of a series of fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sswim.cli.console import messages

if TYPE_CHECKING:
    from sswim.lab.bench.accuracy import Row


@contextmanager
def show_fits(n_fits: int) -> Iterator[Callable[[Row], None]]:
    """Show finished fits, the time left and the latest fit on the standard error stream.

    Yields:
        A function to call with the row of each finished fit.
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
