"""Experiments on small data sets, with methods that take no time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from bench_helpers import MeanOnly, write_set

from sswim.bench.methods import METHODS
from sswim.experiments.catalogue import MAIN_METHODS, OUTPUT_WARP_METHODS
from sswim.experiments.request import Request


def fake_methods(patch: pytest.MonkeyPatch, **others: MeanOnly) -> None:
    """Every method of the tables, and its small version; underscores stand for hyphens."""
    for number, name in enumerate(dict.fromkeys((*MAIN_METHODS, *OUTPUT_WARP_METHODS))):
        for variant in (name, f"{name}-quick"):
            patch.setitem(METHODS, variant, MeanOnly(offset=1e-6 * number))
    for name, method in others.items():
        patch.setitem(METHODS, name.replace("_", "-"), method)


def write_sets(folder: Path, *names: str) -> None:
    for name in names:
        write_set(folder, name, 1100)


def ask(place: Path, **others: Any) -> tuple[Request, list[str]]:
    """A request, and what it comes to say."""
    said: list[str] = []
    settings: dict[str, Any] = {"out": place / "out", "folder": str(place), "repeats": 2}
    return Request(notify=said.append, **(settings | others)), said
