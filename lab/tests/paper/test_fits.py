"""Fits of an experiment: finished ones are kept, and progress is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_builders.bench import MeanOnly, experiment_folder, make_request
from sswim_lab.bench.accuracy import Row
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import read_results
from sswim_lab.paper.command import reproduce


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return experiment_folder(tmp_path, monkeypatch)


def test_an_interruption_keeps_finished_fits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting(MeanOnly):
        def fit(self, *arguments: object) -> Any:
            raise KeyboardInterrupt

    monkeypatch.setitem(METHODS, "rffs", Interrupting())
    request, _ = make_request(folder, methods=("sgpr", "rffs"), repeats=1, sets=("concrete",))
    with pytest.raises(KeyboardInterrupt):
        reproduce("table-main", request)
    (kept,) = read_results(folder / "out" / "fits.csv")
    assert kept.method == "sgpr"
    monkeypatch.setitem(METHODS, "rffs", MeanOnly())
    again, said = make_request(folder, methods=("sgpr", "rffs"), repeats=1, sets=("concrete",))
    assert reproduce("table-main", again) == 0
    assert "1 fits to do, 1 done before." in said


def test_progress_is_called_with_every_fit(folder: Path) -> None:
    shown: list[Row] = []

    @contextmanager
    def progress(n_fits: int) -> Iterator[Callable[[Row], None]]:
        assert n_fits == 4
        yield shown.append

    methods = ("rffs", "dkl")
    request, _ = make_request(folder, sets=("concrete",), methods=methods, progress=progress)
    reproduce("table-main", request)
    assert [(row.method, row.repeat, bool(row.failure)) for row in shown] == [
        *(("rffs", 0, False), ("dkl", 0, False)),
        *(("rffs", 1, False), ("dkl", 1, True)),
    ]
