"""Experiments: the tables and figures of the paper, from a request to the files they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Protocol, runtime_checkable

from sswim.files.output_files import atomic_write
from sswim_lab.bench.accuracy import SYNTHETIC, Row
from sswim_lab.bench.methods import QUICK_SUFFIX
from sswim_lab.bench.results import append_results, read_results
from sswim_lab.bench.runner import Bench, make_plan, run
from sswim_lab.datasets import find
from sswim_lab.paper.formats import csv_table, latex, markdown
from sswim_lab.paper.score_table import ScoreTable, make_table


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


def available_sets(request: Request, names: Sequence[str]) -> tuple[str, ...]:
    """Return the data sets whose files exist; nothing is downloaded."""
    return tuple(name for name in names if find(name, request.folder) is not None)


def sets_to_run(request: Request, own: Sequence[str], quick: Sequence[str]) -> tuple[str, ...]:
    """Return the requested data sets, or the available ones of the experiment.

    Only a data set that is requested by name may be downloaded, because some are large. A quick
    run falls back to synthetic rows.

    Args:
        request: The request.
        own: The data sets of the experiment.
        quick: The data sets of its quick version.
    """
    if request.sets:
        return request.sets
    if request.quick:
        return available_sets(request, quick) or (SYNTHETIC,)
    available = available_sets(request, own)
    if missing := [name for name in own if name not in available]:
        request.notify(
            f"Left out, because their files are not available: {', '.join(missing)}. Name them to "
            f"download them: --sets {','.join(missing)}."
        )
    return available


FITS = "fits.csv"
"""Name of the results file."""
REPEATS = 10
"""Repeats of a data set that is not large, as in the paper."""


def run_fits(request: Request, sets: Sequence[str], methods: Sequence[str]) -> list[Row]:
    """Run the fits that the results file lacks.

    Returns:
        All rows of the results file, also those of other experiments.
    """
    bench = Bench(
        sets,
        methods,
        request.out / FITS,
        request.repeats or (1 if request.quick else None),
        request.device,
        request.folder,
        workers=request.workers,
        retry=request.retry,
        default_repeats=REPEATS,
    )
    plan = make_plan(bench)
    tried = {row.job for row in request.failures}
    plan = replace(plan, jobs=tuple(job for job in plan.jobs if job not in tried))
    for note in (*plan.notes, plan.progress):
        request.notify(note)
    request.out.mkdir(parents=True, exist_ok=True)
    append_results(bench.out, plan.left_out)
    with request.progress(len(plan.jobs)) as show:
        request.failures.extend(run(bench, plan, show))
    return read_results(bench.out)


FORMATS = {"csv": csv_table, "md": markdown, "tex": latex}
"""Functions that write a table as text, by the suffixes of its files."""
QUICK_NOTE = (
    "This is a quick run: small versions of the methods show that all works, and their scores "
    "mean nothing."
)


@runtime_checkable
class Experiment(Protocol):
    """A table or a figure of the paper."""

    @property
    def name(self) -> str:
        """Name of the experiment in commands."""

    @property
    def title(self) -> str:
        """Title of the table or figure."""

    def methods_for(self, request: Request) -> tuple[str, ...]:
        """Return the methods to check before anything is run."""

    def run(self, request: Request) -> list[Path]:
        """Run the fits that are missing, write the outputs and return their paths."""


@dataclass(frozen=True)
class TableExperiment:
    """A table of methods fitted to repeated splits of data sets."""

    name: str
    title: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    quick_sets: tuple[str, ...]
    """Data sets of a quick run."""

    def methods_for(self, request: Request) -> tuple[str, ...]:
        """Return the requested methods, or the experiment's own if none are requested."""
        return request.methods or self._own_methods(request)

    def run(self, request: Request) -> list[Path]:
        """Run the fits that are missing, write the table in every format and return the paths."""
        sets = sets_to_run(request, self.sets, self.quick_sets)
        rows = run_fits(request, sets, self.methods_for(request))
        table = self._table(request, sets, rows)
        paths = [request.out / f"{self.name}.{suffix}" for suffix in FORMATS]
        for path, as_text in zip(paths, FORMATS.values(), strict=True):
            with atomic_write(path) as temporary:
                temporary.write_text(as_text(table), encoding="utf-8")
        return paths

    def _table(self, request: Request, sets: Sequence[str], rows: Sequence[Row]) -> ScoreTable:
        """Make the table of all results of the experiment, also those of earlier requests."""
        shown = tuple(dict.fromkeys((*(() if request.quick else self.sets), *sets)))
        methods = tuple(dict.fromkeys((*self._own_methods(request), *request.methods)))
        untried = [name for name in shown if name not in {row.set for row in rows}]
        missing = [name for name in untried if name not in available_sets(request, untried)]
        notes = [QUICK_NOTE] if request.quick else []
        if missing:
            notes.append(
                f"Of {', '.join(missing)} there is only what was published, because the files of "
                "these data sets were not at hand."
            )
        return make_table(self.title, rows, shown, methods, notes)

    def _own_methods(self, request: Request) -> tuple[str, ...]:
        if request.quick:
            return tuple(f"{name}{QUICK_SUFFIX}" for name in self.methods)
        return self.methods


@dataclass(frozen=True)
class FigureExperiment:
    """A figure, drawn by a function of a module of ``sswim_lab.paper.figures``."""

    name: str
    title: str
    module: str
    function: str = "run"

    def methods_for(self, request: Request) -> tuple[str, ...]:
        """Return the requested methods; the figure itself checks that it can draw them."""
        return request.methods

    def run(self, request: Request) -> list[Path]:
        """Import the module, run it and return the paths; tables do not need matplotlib."""
        module = import_module(f"sswim_lab.paper.figures.{self.module}")
        paths: list[Path] = attrgetter(self.function)(module)(request)
        return paths
