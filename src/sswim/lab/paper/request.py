"""What a command asks of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from sswim.lab.bench.accuracy import Row


@dataclass(frozen=True)
class Request:
    """How an experiment is to be run."""

    out: Path
    """The folder of the results and of what is made of them."""
    notify: Callable[[str], None]
    """Says what happens, a line at a time."""
    sets: tuple[str, ...] = ()
    """The data sets, none for the experiment's own."""
    methods: tuple[str, ...] = ()
    """The methods, none for the experiment's own."""
    repeats: int | None = None
    """Of every data set; by default fewer of the large ones."""
    device: str = "auto"
    folder: str | None = None
    """Of the data sets; by default they are looked for where ``sswim.lab.datasets.find`` does."""
    resume: bool = True
    """Add to results that are there, rather than refuse to."""
    retry: bool = False
    """Repeat the fits that failed before."""
    workers: int = 1
    quick: bool = False
    """A small version, which shows that all works and nothing else."""
    progress: Callable[[int], AbstractContextManager[Callable[[Row], None]]] | None = None
    """Shows so many fits as they end; by default a line about each."""
    failures: list[Row] = field(default_factory=list)
    """What failed so far, to be told at the end and not to be tried again by the same command."""
