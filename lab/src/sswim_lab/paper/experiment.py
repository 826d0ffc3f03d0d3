"""Experiments: the tables and figures of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, runtime_checkable

from sswim.files.output_files import atomic_write
from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.methods import QUICK_SUFFIX
from sswim_lab.paper.csv_table import csv_table
from sswim_lab.paper.fits import run_fits
from sswim_lab.paper.latex import latex
from sswim_lab.paper.markdown import markdown
from sswim_lab.paper.request import Request
from sswim_lab.paper.score_table import ScoreTable, make_table
from sswim_lab.paper.sets import available_sets, sets_to_run

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
    """A figure, drawn by a module of ``sswim_lab.paper.figures``."""

    name: str
    title: str
    module: str

    def methods_for(self, request: Request) -> tuple[str, ...]:
        """Return the requested methods; the figure itself checks that it can draw them."""
        return request.methods

    def run(self, request: Request) -> list[Path]:
        """Import the module, run it and return the paths; tables do not need matplotlib."""
        module = import_module(f"sswim_lab.paper.figures.{self.module}")
        paths: list[Path] = module.run(request)
        return paths
