"""Experiments of the paper: requests, data sets, fits and failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_builders.bench import MeanOnly, experiment_folder, make_request, write_set, write_sets
from sswim_lab.bench.accuracy import SYNTHETIC, Row
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import read_results
from sswim_lab.paper.command import (
    EXPERIMENTS,
    MAIN_METHODS,
    OUTPUT_WARP_METHODS,
    default_out,
    reproduce,
)
from sswim_lab.paper.experiment import FigureExperiment, Request, available_sets, sets_to_run

FIGURES = [name for name in EXPERIMENTS if name.startswith("figure")]
OWN = ("airfoil", "concrete", "creep")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return experiment_folder(tmp_path, monkeypatch)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the figures by stubs, and return the names of those that were run."""
    names: list[str] = []

    def draw(figure: FigureExperiment, request: Request) -> list[Path]:
        names.append(figure.name)
        return [request.out / f"{figure.name}.png"]

    monkeypatch.setattr(FigureExperiment, "run", draw)
    return names


def test_a_table_from_beginning_to_end(folder: Path) -> None:
    request, said = make_request(folder)
    assert reproduce("table-main", request) == 0  # a failure is a result
    out = folder / "out"
    names = {"fits.csv", "table-main.csv", "table-main.md", "table-main.tex"}
    assert {path.name for path in out.iterdir()} == names
    rows = read_results(out / "fits.csv")
    assert len(rows) == 2 * 2 * len(MAIN_METHODS)
    failures = {(row.method, row.failure) for row in rows if row.failure}
    assert failures == {
        ("dkl", "RuntimeError: no luck"),
        ("svgp", "left out: 733 training rows are more than the 700 it is meant for"),
    }
    text = (out / "table-main.md").read_text()
    assert "Of parkinsons, bikeshare, ct_slice, protein, buzz, song there is only what" in text
    assert "| SVGP | left out | 0.332 ± 0.026 |" in text
    assert "| 1 of 2 |" in text
    [left_out] = [line for line in said if line.startswith("Left out, because")]
    assert left_out.endswith("ct_slice,protein,buzz,song.")
    assert "svgp is left out on concrete: 733 training rows" in "\n".join(said)
    assert said[-4].startswith("Wrote ")
    assert said[-3] == "Failed: dkl on concrete, repeat 1: RuntimeError: no luck"
    assert said[-1].endswith("--retry runs these fits again.")


def test_tables_share_their_fits_also_those_of_partial_requests(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "lightgbm", MeanOnly())
    reproduce("table-main", make_request(folder, repeats=1)[0])
    content = (folder / "out" / "fits.csv").read_bytes()
    again, said = make_request(folder, repeats=1)
    reproduce("table-complete", again)
    assert "0 fits to do, 16 done before." in said
    assert (folder / "out" / "fits.csv").read_bytes() == content
    assert "## airfoil" in (folder / "out" / "table-complete.md").read_text()
    shown: list[Row] = []

    @contextmanager
    def progress(n_fits: int) -> Iterator[Callable[[Row], None]]:
        yield shown.append

    chosen: dict[str, Any] = {"sets": ("concrete",), "methods": ("rffs", "lightgbm")}
    part, said = make_request(folder, repeats=2, progress=progress, **chosen)
    reproduce("table-main", part)
    assert "3 fits to do, 1 done before." in said
    done = [(row.method, row.repeat) for row in shown]
    assert done == [("lightgbm", 0), ("rffs", 1), ("lightgbm", 1)]
    text = (folder / "out" / "table-main.md").read_text()
    assert sum(line.startswith("| lightgbm | ") for line in text.splitlines()) == 10
    assert text.count("| our default | ") == 10  # eight sets, and two tables of all
    assert "## supercond" in text
    assert "supercond there is only" not in text
    assert "Of parkinsons" in text  # also when it was not asked for


def test_failed_fits_are_retried_once_on_request(
    folder: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, _ = make_request(folder)
    reproduce("table-main", request)
    again, said = make_request(folder, retry=True)
    assert reproduce("all", again) == 0
    assert [line for line in said if " fits to do" in line] == [
        "2 fits to do, 30 done before.",
        "0 fits to do, 30 done before.",  # not again by the same command
        "0 fits to do, 0 done before.",
    ]
    monkeypatch.setitem(METHODS, "dkl", MeanOnly())
    once_more, said = make_request(folder, retry=True)
    reproduce("table-main", once_more)
    assert "2 fits to do, 30 done before." in said
    assert not once_more.failures
    assert "| 1 of 2 |" not in (folder / "out" / "table-main.md").read_text()


@pytest.mark.parametrize("available", [True, False])
def test_a_quick_run_needs_nothing(
    folder: Path, drawn: list[str], available: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write_sets(folder, "airfoil", "creep")
    places = folder if available else tmp_path_factory.mktemp("empty")
    request, said = make_request(folder, folder=str(places), quick=True, repeats=None)
    assert reproduce("all", request) == 0
    assert drawn == FIGURES
    rows = read_results(folder / "out" / "fits.csv")
    sets = {"airfoil", "concrete", "creep"} if available else {SYNTHETIC}
    assert {row.set for row in rows} == sets
    assert {row.repeat for row in rows} == {0}
    methods = {f"{name}-quick" for name in (*MAIN_METHODS, *OUTPUT_WARP_METHODS)}
    assert {row.method for row in rows} == methods
    text = (folder / "out" / "table-main.md").read_text()
    assert "quick run" in text
    assert ("0.305 ± 0.026" in text) == available
    assert "parkinsons" not in text
    assert not any("not available" in line for line in said)


def test_an_experiment_that_fails_does_not_stop_the_others(
    folder: Path, drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = FigureExperiment.run

    def draw_all_but_one(figure: FigureExperiment, request: Request) -> list[Path]:
        if figure.name == "figure-depth":
            raise RuntimeError("no pen")
        return draw(figure, request)

    monkeypatch.setattr(FigureExperiment, "run", draw_all_but_one)
    request, said = make_request(folder, repeats=1)
    assert reproduce("all", request) == 1
    assert drawn == [name for name in FIGURES if name != "figure-depth"]
    assert said[-1] == "Experiment failed: figure-depth: RuntimeError: no pen"
    with pytest.raises(RuntimeError, match="no pen"):
        reproduce("figure-depth", request)


def test_which_sets_are_run_and_where_results_go(tmp_path: Path) -> None:
    assert default_out(quick=False) == Path("results/paper")
    assert default_out(quick=True) == Path("results/paper-quick")
    quick, said = make_request(tmp_path, quick=True)
    assert sets_to_run(quick, OWN, ("airfoil",)) == (SYNTHETIC,)
    write_set(tmp_path, "airfoil")
    assert sets_to_run(quick, OWN, ("airfoil",)) == ("airfoil",)
    assert said == []
    request, said = make_request(tmp_path)
    assert available_sets(request, OWN) == ("airfoil",)
    assert sets_to_run(request, OWN, ()) == ("airfoil",)
    (note,) = said
    assert "concrete, creep. Name them to download them: --sets concrete,creep." in note
    named, said = make_request(tmp_path, sets=("creep",))  # available or not
    assert sets_to_run(named, OWN, ()) == ("creep",)
    assert said == []
