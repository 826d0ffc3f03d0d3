"""A request to run an experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sswim_lab.bench.accuracy import Row


@contextmanager
def no_progress(n_fits: int) -> Iterator[Callable[[Row], None]]:
    """Show no progress."""
    yield lambda row: None


@dataclass(frozen=True)
class Request:
    """Settings of a run of an experiment."""

    out: Path
    """Folder of the results, tables and figures."""
    notify: Callable[[str], None]
    """Shows a message of one line."""
    sets: tuple[str, ...] = ()
    """Data sets; if empty, those of the experiment."""
    methods: tuple[str, ...] = ()
    """Methods; if empty, those of the experiment."""
    repeats: int | None = None
    """Repeats of every data set; by default large data sets have fewer."""
    device: str = "auto"
    folder: str | None = None
    """Folder of the data sets; by default ``sswim_lab.datasets.find`` searches for them."""
    resume: bool = True
    """Whether to add to existing results; otherwise they raise an error."""
    retry: bool = False
    """Whether to repeat fits that failed before."""
    workers: int = 1
    """Number of processes."""
    quick: bool = False
    """Whether to run a small version, which only shows that everything works."""
    progress: Callable[[int], AbstractContextManager[Callable[[Row], None]]] = no_progress
    """Takes the number of fits and makes a function to call with the row of each."""
    failures: list[Row] = field(default_factory=list)
    """Fits that failed so far, to report at the end; the same command does not retry them."""
