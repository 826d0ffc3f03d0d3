"""Running experiments: wrong requests, failures, and quick runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lab_builders.bench import MeanOnly, experiment_folder, make_request, write_sets
from sswim_lab.bench.methods import METHODS
from sswim_lab.bench.results import read_results
from sswim_lab.paper.command import (
    EXPERIMENTS,
    MAIN_METHODS,
    OUTPUT_WARP_METHODS,
    default_out,
    listing,
    reproduce,
)
from sswim_lab.paper.experiment import FigureExperiment, Request

FIGURES = [name for name in EXPERIMENTS if name.startswith("figure")]


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


@pytest.mark.parametrize(
    ("name", "others", "message"),
    [
        ("table-9", {}, "An experiment must be one of table-main, .*, all. Got 'table-9'"),
        ("table-main", {"sets": ("boston",)}, "A data set must be one of elevators, .*boston"),
        ("figure-depth", {"sets": ("boston",)}, "A data set must be one of"),
        ("table-main", {"methods": ("xgboost",)}, "A method must be one of .*xgboost"),
        ("figure-depth", {"methods": ("xgboost",)}, "A method must be one of"),
        ("table-main", {"repeats": 0}, "repeats must be at least 1"),
        ("all", {"workers": 0}, "workers must be at least 1"),
        ("all", {"sets": ("concrete",)}, "need a single experiment"),
        ("all", {"methods": ("rffs",)}, "need a single experiment"),
        ("table-main", {"sets": ("creep",)}, r"creep\.parquet does not exist"),
    ],
)
def test_wrong_requests_raise_an_error_before_anything_is_run(
    folder: Path, name: str, others: dict[str, Any], message: str
) -> None:
    request, _ = make_request(folder, **others)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        reproduce(name, request)
    assert not request.out.exists()


def test_existing_results_raise_an_error_without_resume(folder: Path, drawn: list[str]) -> None:
    request, _ = make_request(folder, resume=False, repeats=1)
    assert reproduce("all", request) == 0  # the second table adds to the file of the first
    with pytest.raises(FileExistsError, match=r"has results already.*--resume"):
        reproduce("table-main", request)


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
    sets = {"airfoil", "concrete", "creep"} if available else {"synthetic"}
    assert {row.set for row in rows} == sets
    assert {row.repeat for row in rows} == {0}
    assert {row.method for row in rows} == {
        f"{name}-quick" for name in (*MAIN_METHODS, *OUTPUT_WARP_METHODS)
    }
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


def test_every_experiment_is_listed() -> None:
    lines = listing()
    assert [line.split()[0] for line in lines] == [*EXPERIMENTS, "all"]
    assert len(EXPERIMENTS) == 8


def test_a_quick_run_has_a_folder_of_its_own() -> None:
    assert default_out(quick=False) == Path("results/paper")
    assert default_out(quick=True) == Path("results/paper-quick")
