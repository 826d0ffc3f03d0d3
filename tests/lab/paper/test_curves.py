"""Figures of scores: against a number that methods differ in, and at every step of training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.bench import MeanOnly, make_request, row
from builders.figures import matplotlib_left_alone  # noqa: F401 (for every test)
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sswim.lab.bench.accuracy import Job, Row, run_fit
from sswim.lab.bench.dataclass_csv import read_rows
from sswim.lab.bench.methods import QUICK, VARIANTS
from sswim.lab.bench.results import append_results, read_results
from sswim.lab.bench.splits import SYNTHETIC
from sswim.lab.paper.figures import depth, overfitting, pseudo_points
from sswim.lab.paper.figures.overfitting import StepScores
from sswim.lab.paper.figures.variants import Point, draw, summarise

STEPS_FILE = "figure-overfitting.csv"


def panels(figure: Figure, n_sets: int) -> list[list[Axes]]:
    """Return the panels of errors and those of densities."""
    return [figure.axes[:n_sets], figure.axes[n_sets:]]


def scored(set_: str, method: str, repeat: int, rmse: float, mnlp: float) -> Row:
    return row(set_, method, repeat, rmse=float(rmse), mnlp=float(mnlp))


def drawn(ax: Axes) -> tuple[list[float], list[float]]:
    """Return x and y of the only curve."""
    [line] = ax.lines
    return list(line.get_xdata()), list(line.get_ydata())  # type: ignore[arg-type]


@pytest.mark.parametrize("module", [pseudo_points, depth])
def test_the_variants_are_those_of_the_bench(module: Any) -> None:
    for name, x in module.FIGURE.methods.items():
        settings = VARIANTS[name].settings()
        key = "pseudo" if module is pseudo_points else "depth"
        assert (settings[key], settings["features"]) == (x, 256)
    assert set(module.FIGURE.quick) <= set(module.FIGURE.methods.values())


def test_finished_variants_are_not_repeated(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True, repeats=1)
    table, *_ = pseudo_points.run(request)
    fits, numbers = (request.out / "fits.csv").read_bytes(), table.read_bytes()
    assert "2 fits to do, 0 done before." in said
    pseudo_points.run(request)
    assert "0 fits to do, 2 done before." in said
    assert (request.out / "fits.csv").read_bytes() == fits
    assert table.read_bytes() == numbers


def test_points_are_means_over_the_repeats_that_worked(tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, sets=(SYNTHETIC,), methods=("paper-k10-quick",))
    request.out.mkdir()
    rows = [
        scored(SYNTHETIC, "paper-k10-quick", 0, 1, 5),
        scored(SYNTHETIC, "paper-k10-quick", 1, 3, 5),
        replace(scored(SYNTHETIC, "paper-k40-quick", 0, 2, -1), failure="no luck"),
        scored(SYNTHETIC, "paper-k40-quick", 1, 4, -2),
        scored("airfoil", "paper-k40-quick", 0, 7, 7),
    ]
    append_results(request.out / "fits.csv", rows)
    table, *_ = pseudo_points.run(request)  # all results, although one method is requested
    points = read_rows(table, Point)
    airfoil, few, many = points
    assert (airfoil.set, airfoil.x, airfoil.rmse, airfoil.repeats) == ("airfoil", 40, 7, 1)
    assert (few.x, few.rmse, few.mnlp, few.mnlp_sd, few.repeats) == (10, 2, 5, 0, 2)
    assert few.rmse_sd == pytest.approx(2**0.5)
    assert (many.x, many.rmse, many.mnlp, many.repeats, many.failures) == (40, 4, -2, 1, 1)
    assert np.isnan(many.rmse_sd)


def test_the_curves_are_the_points() -> None:
    methods = {"paper-depth1": 1, "paper-depth0": 0}
    rows = [
        scored(name, method, repeat, x + 1 + repeat, -x)
        for name in ("airfoil", "concrete")
        for method, x in methods.items()
        for repeat in range(3)
    ]
    figure = draw(
        summarise(rows, ("concrete", "airfoil"), methods), "warps", (0, 1), logarithmic=False
    )
    errors, densities = panels(figure, 2)
    assert [ax.get_title() for ax in errors] == ["concrete", "airfoil"]
    for ax in errors:
        assert drawn(ax) == ([0, 1], [2, 3])
        band = ax.collections[0].get_paths()[0].vertices
        assert {tuple(vertex) for vertex in np.asarray(band)} == {(0, 1), (0, 3), (1, 2), (1, 4)}
    for ax in densities:
        assert drawn(ax) == ([0, 1], [0, -1])


def test_a_figure_without_a_fit_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for x in depth.FIGURE.quick:
        monkeypatch.setitem(QUICK, f"paper-depth{x}-quick", MeanOnly(fails_on=(0,)))
    request, said = make_request(tmp_path, quick=True, repeats=1)
    assert depth.run(request) == []
    assert said[-1] == "figure-depth is not drawn, because no fit worked."
    assert [failure.failure for failure in request.failures] == ["RuntimeError: no luck"] * 2


@pytest.mark.parametrize("module", [pseudo_points, depth, overfitting])
def test_other_methods_raise_an_error(module: Any, tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, methods=("sswim",))
    with pytest.raises(ValueError, match=r"The methods of figure-.* must be among paper-.*-quick"):
        module.run(request)
    assert not request.out.exists()


def test_scores_of_steps_end_at_those_of_the_bench(tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, repeats=1)
    overfitting.run(request)
    scores = read_rows(request.out / STEPS_FILE, StepScores)
    assert [each.step for each in scores] == list(range(1, 16))
    end = run_fit(scores[-1].job, "cpu", None)
    last = scores[-1]
    assert (last.rmse, last.mnlp, last.coverage_90) == pytest.approx(
        (end.rmse, end.mnlp, end.coverage_90)
    )
    assert scores[0].rmse > last.rmse


def test_steps_go_on_after_an_interruption(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True, repeats=2)

    def interrupt(line: str) -> None:
        if line.startswith("1 of 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        overfitting.run(replace(request, notify=interrupt))
    path = request.out / STEPS_FILE
    first = path.read_bytes()
    assert {each.repeat for each in read_rows(path, StepScores)} == {0}
    assert [each.name for each in request.out.iterdir()] == [STEPS_FILE]
    overfitting.run(request)
    assert said[0] == "1 fits to do, 1 done before."
    both = path.read_bytes()
    assert both.startswith(first)
    assert len(read_rows(path, StepScores)) == 30
    overfitting.run(request)
    assert path.read_bytes() == both


def test_several_processes_score_steps_as_one_does(tmp_path: Path) -> None:
    scores = []
    for workers in (1, 2):
        request, _ = make_request(
            tmp_path, quick=True, workers=workers, out=tmp_path / str(workers)
        )
        overfitting.run(request)
        scores.append(read_rows(request.out / STEPS_FILE, StepScores))
    one, two = (sorted(each, key=lambda each: (each.repeat, each.step)) for each in scores)
    assert [each.job for each in one] == [each.job for each in two]
    assert [each.rmse for each in one] == pytest.approx([each.rmse for each in two])


def test_a_fit_that_fails_is_noted_and_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*arguments: Any) -> Any:
        raise FileNotFoundError("no rows")

    request, said = make_request(tmp_path, quick=True, repeats=1)
    path = request.out / STEPS_FILE
    with monkeypatch.context() as patch:
        patch.setattr(overfitting, "load_split", missing)
        assert overfitting.run(request) == [path]
    [noted] = read_rows(path, StepScores)
    assert (noted.step, noted.failure) == (0, "FileNotFoundError: no rows")
    [failure] = request.failures
    assert failure.job == Job(SYNTHETIC, "paper-k1280-quick", 0)
    assert failure.failure == noted.failure
    assert said[-1] == "figure-overfitting is not drawn, because no fit worked."

    overfitting.run(request)
    assert len(read_rows(path, StepScores)) == 1
    assert len(overfitting.run(replace(request, retry=True))) == 3
    assert len(read_rows(path, StepScores)) == 16
    overfitting.run(replace(request, retry=True))
    assert said[-1] == "0 fits to do, 1 done before."


def test_a_failed_fit_has_one_row_at_step_zero() -> None:
    [scores] = overfitting._failed_scores(Job("airfoil", "paper-k1280", 3), "exit code -9")
    assert scores.job == Job("airfoil", "paper-k1280", 3)
    assert (scores.step, scores.failure) == (0, "exit code -9")


def test_the_curves_of_steps_are_means_over_repeats() -> None:
    scores = [
        StepScores("airfoil", "paper-k1280", repeat, step, float(step + repeat), -float(step), 0.9)
        for repeat in (0, 2)
        for step in (1, 2, 3)
    ]
    [error], [density] = panels(overfitting.draw(scores), 1)
    assert drawn(error) == ([1, 2, 3], [2, 3, 4])
    assert drawn(density) == ([1, 2, 3], [-1, -2, -3])
    vertices = np.asarray(error.collections[0].get_paths()[0].vertices)
    assert vertices[:, 1].max() == pytest.approx(4 + 2**0.5)
    later = [replace(each, rmse=7.0) for each in scores[:3]]
    [error], _ = panels(overfitting.draw([*scores, *later]), 1)
    assert drawn(error)[1] == [5, 5.5, 6]


def test_rows_of_other_experiments_are_left_alone(tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, repeats=1)
    request.out.mkdir()
    append_results(request.out / "fits.csv", [row(SYNTHETIC, "sswim", 0)])
    table, *_ = depth.run(request)
    assert {point.method for point in read_rows(table, Point)} == {
        "paper-depth0-quick",
        "paper-depth1-quick",
    }
    assert len(read_results(request.out / "fits.csv")) == 3
