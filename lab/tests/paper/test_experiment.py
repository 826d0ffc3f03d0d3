"""Experiments, their data sets and their fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_builders.bench import MeanOnly, experiment_folder, make_request, write_set
from sswim_lab.bench.accuracy import SYNTHETIC, Row
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import read_results
from sswim_lab.paper.command import MAIN_METHODS, reproduce
from sswim_lab.paper.experiment import available_sets, sets_to_run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return experiment_folder(tmp_path, monkeypatch)


def test_a_table_from_beginning_to_end(folder: Path) -> None:
    request, said = make_request(folder)
    assert reproduce("table-main", request) == 0  # a failure is a result
    out = folder / "out"
    assert {path.name for path in out.iterdir()} == {
        *("fits.csv", "table-main.csv", "table-main.md", "table-main.tex")
    }
    rows = read_results(out / "fits.csv")
    assert len(rows) == 2 * 2 * len(MAIN_METHODS)
    assert {row.failure for row in rows if row.method == "dkl" and row.repeat == 1} == {
        "RuntimeError: no luck"
    }
    assert {row.failure for row in rows if row.method == "svgp"} == {
        "left out: 733 training rows are more than the 700 it is meant for"
    }
    text = (out / "table-main.md").read_text()
    assert "Of parkinsons, bikeshare, ct_slice, protein, buzz, song there is only what" in text
    assert "| SVGP | left out | 0.332 ± 0.026 |" in text
    assert "| 1 of 2 |" in text
    assert any(
        line.startswith("Left out, because") and line.endswith("ct_slice,protein,buzz,song.")
        for line in said
    )
    assert "svgp is left out on concrete: 733 training rows" in "\n".join(said)
    assert said[-4].startswith("Wrote ")
    assert said[-3] == "Failed: dkl on concrete, repeat 1: RuntimeError: no luck"
    assert said[-1].endswith("--retry runs these fits again.")


def test_tables_share_their_fits(folder: Path) -> None:
    request, _ = make_request(folder, repeats=1)
    reproduce("table-main", request)
    content = (folder / "out" / "fits.csv").read_bytes()
    again, said = make_request(folder, repeats=1)
    reproduce("table-complete", again)
    assert "0 fits to do, 16 done before." in said
    assert (folder / "out" / "fits.csv").read_bytes() == content
    assert "## airfoil" in (folder / "out" / "table-complete.md").read_text()


def test_a_partial_request_keeps_the_whole_table(folder: Path) -> None:
    reproduce("table-main", make_request(folder, repeats=1)[0])
    part, said = make_request(folder, repeats=2, sets=("concrete",), methods=("rffs",))
    reproduce("table-main", part)
    assert "1 fits to do, 1 done before." in said
    text = (folder / "out" / "table-main.md").read_text()
    assert text.count("| our default | ") == 10  # eight sets, and two tables of all
    assert "## supercond" in text
    assert "supercond there is only" not in text
    assert "Of parkinsons" in text  # also when it was not asked for


def test_other_methods_have_rows_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "lightgbm", MeanOnly())
    request, _ = make_request(folder, sets=("concrete",), methods=("lightgbm",))
    reproduce("table-main", request)
    lines = (folder / "out" / "table-main.md").read_text().splitlines()
    assert sum(line.startswith("| lightgbm | ") for line in lines) == 10


def test_without_any_data_there_is_what_was_published(folder: Path) -> None:
    request, _ = make_request(folder, folder=str(folder / "nowhere"))
    assert reproduce("table-output-warp", request) == 0
    text = (folder / "out" / "table-output-warp.md").read_text()
    assert "| BWGP | – | 4.55 ± 0.11 | – | 1.99 ± 0.01 | – |" in text


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


OWN = ("airfoil", "concrete", "creep")


def test_available_sets_are_run_and_the_others_are_named(tmp_path: Path) -> None:
    write_set(tmp_path, "concrete")
    request, said = make_request(tmp_path)
    assert available_sets(request, OWN) == ("concrete",)
    assert sets_to_run(request, OWN, ()) == ("concrete",)
    (note,) = said
    assert "airfoil, creep. Name them to download them: --sets airfoil,creep." in note


def test_requested_sets_are_run_whether_available_or_not(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, sets=("creep",))
    assert sets_to_run(request, OWN, ()) == ("creep",)
    assert said == []


def test_a_quick_run_needs_no_file(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True)
    assert sets_to_run(request, OWN, ("airfoil",)) == (SYNTHETIC,)
    write_set(tmp_path, "airfoil")
    assert sets_to_run(request, OWN, ("airfoil",)) == ("airfoil",)
    assert said == []
