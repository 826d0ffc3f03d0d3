"""Experiments: what they run, and what they write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, runtime_checkable

from sswim.base.files import atomic_write
from sswim.lab.bench.accuracy import Row
from sswim.lab.paper.fits import run_fits
from sswim.lab.paper.latex import latex
from sswim.lab.paper.long_form import long_form
from sswim.lab.paper.markdown import markdown
from sswim.lab.paper.request import Request
from sswim.lab.paper.sets import at_hand, sets_to_run
from sswim.lab.paper.tables import QUICK, ScoreTable, make_table

FORMS = {"csv": long_form, "md": markdown, "tex": latex}
"""What is written of a table, by the suffixes of the files."""
QUICK_NOTE = (
    "This is a quick run: small versions of the methods show that all works, and their scores "
    "mean nothing."
)


@runtime_checkable
class Experiment(Protocol):
    """A table or a figure of the paper."""

    @property
    def name(self) -> str:
        """What to call it in a command."""

    @property
    def title(self) -> str:
        """What it shows."""

    def methods_for(self, request: Request) -> tuple[str, ...]:
        """Those that it will need, to be checked before anything is run."""

    def run(self, request: Request) -> list[Path]:
        """Do what is missing, and write the outputs; the files written."""


@dataclass(frozen=True)
class TableExperiment:
    """Methods fitted to repeated splits of data sets."""

    name: str
    title: str
    sets: tuple[str, ...]
    methods: tuple[str, ...]
    quick_sets: tuple[str, ...]

    def methods_for(self, request: Request) -> tuple[str, ...]:
        """Those asked for, or its own."""
        return request.methods or self._own_methods(request)

    def run(self, request: Request) -> list[Path]:
        """Do the fits, and write the table in every form."""
        sets = sets_to_run(request, self.sets, self.quick_sets)
        rows = run_fits(request, sets, self.methods_for(request))
        table = self._table(request, sets, rows)
        paths = [request.out / f"{self.name}.{suffix}" for suffix in FORMS]
        for path, form in zip(paths, FORMS.values(), strict=True):
            with atomic_write(path) as temporary:
                temporary.write_text(form(table), encoding="utf-8")
        return paths

    def _table(self, request: Request, sets: Sequence[str], rows: Sequence[Row]) -> ScoreTable:
        """All that the file of results has of the experiment, whatever was asked for this time."""
        shown = tuple(dict.fromkeys((*(() if request.quick else self.sets), *sets)))
        methods = tuple(dict.fromkeys((*self._own_methods(request), *request.methods)))
        untried = [name for name in shown if name not in {row.set for row in rows}]
        missing = [name for name in untried if name not in at_hand(request, untried)]
        notes = [QUICK_NOTE] if request.quick else []
        if missing:
            notes.append(
                f"Of {', '.join(missing)} there is only what was published, because the files of "
                "these data sets were not at hand."
            )
        return make_table(self.title, rows, shown, methods, notes)

    def _own_methods(self, request: Request) -> tuple[str, ...]:
        return tuple(f"{name}{QUICK}" for name in self.methods) if request.quick else self.methods


@dataclass(frozen=True)
class FigureExperiment:
    """A figure, drawn by a module of ``sswim.lab.paper.figures``."""

    name: str
    title: str
    module: str

    def methods_for(self, request: Request) -> tuple[str, ...]:
        """Those asked for."""
        return request.methods

    def run(self, request: Request) -> list[Path]:
        """Let the module do it, which is imported only now: tables need no pictures."""
        module = import_module(f"sswim.lab.paper.figures.{self.module}")
        paths: list[Path] = module.run(request)
        return paths
