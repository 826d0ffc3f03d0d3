"""The figures of the paper: what they measure, draw and write."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.figures import matplotlib_left_alone  # noqa: F401 (for every test)
from lab_builders.bench import make_request, row
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from sswim_lab.bench.accuracy import SYNTHETIC, Job, run_fit
from sswim_lab.bench.results import append_results, read_rows
from sswim_lab.paper.command import EXPERIMENTS, reproduce
from sswim_lab.paper.figures import gramacy, overfitting, warp_1d
from sswim_lab.paper.figures.curves import write_figure
from sswim_lab.paper.figures.gramacy import Cell, PointConcentration, PseudoPoint
from sswim_lab.paper.figures.overfitting import StepScores
from sswim_lab.paper.figures.variants import (
    DEPTH,
    PSEUDO_POINTS,
    Point,
    draw,
    summarise,
)

from sswim import SSWIMRegressor
from sswim.cli.demo import SEED, demo_regressor, draw_rows, nonstationary_signal

FIGURES = [name for name in EXPERIMENTS if name.startswith("figure")]
STEPS_FILE = "figure-overfitting.csv"


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder and the messages of a quick run of everything, without any data set."""
    request, said = make_request(tmp_path_factory.mktemp("quick"), quick=True, repeats=1)
    assert reproduce("all", request) == 0
    assert request.failures == []
    return request.out, said


def score_panels(figure: Figure, n_sets: int) -> tuple[list[Axes], list[Axes]]:
    """Return the panels of errors and those of densities."""
    return figure.axes[:n_sets], figure.axes[n_sets:]


def points_of(line: Line2D) -> list[list[float]]:
    return np.asarray(line.get_xydata()).tolist()


def band_of(ax: Axes) -> np.ndarray:
    """Return the corners of the band around a curve."""
    return np.asarray(ax.collections[0].get_paths()[0].vertices)


def test_a_quick_run_writes_every_table_and_figure(quick_run: tuple[Path, list[str]]) -> None:
    out, _ = quick_run
    assert {path.stem for path in out.iterdir()} >= {"fits", *EXPERIMENTS}
    for name in FIGURES:
        assert (out / f"{name}.csv").exists()
        assert (out / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        with Image.open(out / f"{name}.png") as picture:
            assert picture.info["dpi"][0] >= 150
            assert (np.asarray(picture.convert("L")) < 200).mean() > 0.005  # not blank


def test_the_same_figure_makes_the_same_files(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        figure = Figure()
        figure.subplots().plot([1, 2])
        contents.append([path.read_bytes() for path in write_figure(figure, tmp_path, name)])
    assert contents[0] == contents[1]


OWN_ROWS = "has its own rows and model"
OWN_METHODS = r"The methods of figure-.* must be among paper-.*-quick"


@pytest.mark.parametrize(
    ("run", "choice", "message"),
    [
        (warp_1d.run, {"sets": ("airfoil",)}, OWN_ROWS),
        (gramacy.run, {"methods": ("sswim",)}, OWN_ROWS),
        (PSEUDO_POINTS.run, {"methods": ("sswim",)}, OWN_METHODS),
        (DEPTH.run, {"methods": ("sswim",)}, OWN_METHODS),
        (overfitting.run, {"methods": ("sswim",)}, OWN_METHODS),
    ],
)
def test_other_sets_and_methods_raise_an_error(
    run: Callable[..., Any], choice: dict[str, Any], message: str, tmp_path: Path
) -> None:
    request, _ = make_request(tmp_path, quick=True, **choice)
    with pytest.raises(ValueError, match=message):
        run(request)
    assert not request.out.exists()


def test_points_are_means_over_the_repeats_that_worked(tmp_path: Path) -> None:
    few, many = "paper-k10-quick", "paper-k40-quick"
    request, _ = make_request(tmp_path, quick=True, sets=(SYNTHETIC,), methods=(few,))
    request.out.mkdir()
    rows = [
        row(SYNTHETIC, few, 0, rmse=1, mnlp=5),
        row(SYNTHETIC, few, 1, rmse=3, mnlp=5),
        row(SYNTHETIC, many, 0, "no luck"),
        row(SYNTHETIC, many, 1, rmse=4, mnlp=-2),
        row("airfoil", many, 0, rmse=7, mnlp=7),
    ]
    append_results(request.out / "fits.csv", rows)
    table, *_ = PSEUDO_POINTS.run(request)  # all results, although one method is requested
    airfoil, first, second = read_rows(table, Point)
    assert (airfoil.set, airfoil.x, airfoil.rmse, airfoil.repeats) == ("airfoil", 40, 7, 1)
    assert (first.x, first.rmse, first.mnlp, first.mnlp_sd, first.repeats) == (10, 2, 5, 0, 2)
    assert first.rmse_sd == pytest.approx(2**0.5)
    assert (second.x, second.rmse, second.mnlp) == (40, 4, -2)
    assert (second.repeats, second.failures) == (1, 1)
    assert np.isnan(second.rmse_sd)


def test_the_curves_of_variants_are_their_points() -> None:
    methods = {"paper-depth2": 2, "paper-depth1": 1}
    rows = [
        row(name, method, repeat, rmse=x + 1.0 + repeat, mnlp=-float(x))
        for name in ("airfoil", "concrete")
        for method, x in methods.items()
        for repeat in range(3)
    ]
    points = summarise(rows, ("concrete", "airfoil"), methods)
    figure = draw(points, "warps", (1, 2), logarithmic=True)
    errors, densities = score_panels(figure, 2)
    assert [ax.get_title() for ax in errors] == ["concrete", "airfoil"]
    labels = [ax.get_ylabel() for ax in (errors[0], densities[0])]
    assert labels == ["RMSE, standardised", "MNLP, nats"]
    for error, density in zip(errors, densities, strict=True):
        assert points_of(error.lines[0]) == [[1, 3], [2, 4]]
        assert {tuple(corner) for corner in band_of(error)} == {(1, 2), (1, 4), (2, 3), (2, 5)}
        assert points_of(density.lines[0]) == [[1, -1], [2, -2]]
        assert density.get_xscale() == "log"
        assert list(density.get_xticks()) == [1, 2]


def test_scores_of_steps_end_at_those_of_the_bench(quick_run: tuple[Path, list[str]]) -> None:
    scores = read_rows(quick_run[0] / STEPS_FILE, StepScores)
    assert [each.step for each in scores] == list(range(1, 16))
    last, end = scores[-1], run_fit(scores[-1].job, "cpu", None)
    expected = pytest.approx((end.rmse, end.mnlp, end.coverage_90))
    assert (last.rmse, last.mnlp, last.coverage_90) == expected
    assert scores[0].rmse > last.rmse


def test_steps_go_on_after_an_interruption(
    quick_run: tuple[Path, list[str]], tmp_path: Path
) -> None:
    request, said = make_request(tmp_path, quick=True)

    def interrupt(line: str) -> None:
        if line.startswith("1 of 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        overfitting.run(replace(request, notify=interrupt))
    path = request.out / STEPS_FILE
    first = path.read_bytes()
    assert [each.name for each in request.out.iterdir()] == [STEPS_FILE]
    overfitting.run(request)
    assert said[0] == "1 fits to do, 1 done before."
    assert path.read_bytes().startswith(first)
    scores = read_rows(path, StepScores)
    assert [each.repeat for each in scores] == [0] * 15 + [1] * 15
    whole = read_rows(quick_run[0] / STEPS_FILE, StepScores)
    assert [each.rmse for each in scores[:15]] == pytest.approx([each.rmse for each in whole])


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
    assert len(overfitting.run(replace(request, retry=True))) == 3
    assert len(read_rows(path, StepScores)) == 16
    overfitting.run(replace(request, retry=True))
    assert said[-1] == "0 fits to do, 1 done before."


def test_the_curves_of_steps_are_means_over_repeats() -> None:
    scores = [
        StepScores("airfoil", "paper-k1280", repeat, step, float(step + repeat), -float(step), 0.9)
        for repeat in (0, 2)
        for step in (1, 2, 3)
    ]
    [error], [density] = score_panels(overfitting.draw(scores), 1)
    assert points_of(error.lines[0]) == [[1, 2], [2, 3], [3, 4]]
    assert points_of(density.lines[0]) == [[1, -1], [2, -2], [3, -3]]
    assert band_of(error)[:, 1].max() == pytest.approx(4 + 2**0.5)


def test_the_concentration_of_points_is_measured() -> None:
    at_hill = np.array([[1.0, 0], [0, 2], [-2, -2]])
    flat = np.array([[4.0, 4], [5, 4], [6, 6], [3, 1], [-1, 6]])
    one = gramacy.measure_concentration([at_hill])
    assert one == pytest.approx((2 / 3, 0, (1 + 2 + 8**0.5) / 3, 5**0.5))
    near, mirrored, _, spacing = gramacy.measure_concentration([flat])
    assert (near, mirrored, spacing) == pytest.approx((0, 0.4, 5**0.5))
    of_two = gramacy.measure_concentration([at_hill, at_hill])
    assert of_two == pytest.approx(one)  # a point is compared with those of its own function


def test_the_files_of_the_surface_hold_what_is_measured_and_drawn(
    quick_run: tuple[Path, list[str]],
) -> None:
    out, said = quick_run
    points = read_rows(out / "figure-gramacy-points.csv", PseudoPoint)
    measured = read_rows(out / "figure-gramacy.csv", PointConcentration)
    assert [(each.repeat, each.when) for each in measured] == [(0, "before"), (0, "after")]
    for each in measured:
        x1, x2 = f"x1_{each.when}", f"x2_{each.when}"
        functions = [
            np.array([(getattr(p, x1), getattr(p, x2)) for p in points if p.function == function])
            for function in "gh"
        ]
        numbers = (each.share_near, each.share_mirrored, each.distance, each.spacing)
        assert gramacy.measure_concentration(functions) == pytest.approx(numbers)
    assert any(line.startswith("Before training") for line in said)
    cells = read_rows(out / "figure-gramacy-surface.csv", Cell)
    errors = [cell.prediction - cell.truth for cell in cells]
    assert math.hypot(*errors) / len(cells) ** 0.5 == pytest.approx(measured[1].rmse)
    x = torch.tensor([(cell.x1, cell.x2) for cell in cells], dtype=torch.float64)
    assert [cell.truth for cell in cells] == pytest.approx(gramacy.gramacy_surface(x).tolist())


def test_signals_against_their_formulas() -> None:
    x = torch.tensor([[2**-0.5, 0], [-(2**-0.5), 0], [0, 1], [4, 4]], dtype=torch.float64)
    height = math.exp(-0.5) / math.sqrt(2)
    expected = torch.tensor([height, -height, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(gramacy.gramacy_surface(x), expected, atol=1e-12, rtol=1e-12)
    x = torch.tensor([0.1, 0.5, 0.9, 1.25, 1.5, 1.75, 2.0, 2.2], dtype=torch.float64)
    chirp = math.sin(2 * math.pi * 0.2 * 2)
    expected = torch.tensor([-1, 1, -1, 1, 0, -1, 0, chirp], dtype=torch.float64)
    torch.testing.assert_close(nonstationary_signal(x), expected, atol=1e-12, rtol=1e-12)


class Levelling(SSWIMRegressor):
    """A warp along which the signal goes up and down at a slope of two."""

    def warp(self, X: Any, X_std: Any = None, member: int | None = None) -> list[Any]:
        signal = nonstationary_signal(torch.from_numpy(X)).numpy()
        steps = np.abs(np.diff(signal, axis=0, prepend=signal[:1]))
        return [(np.cumsum(steps, axis=0) / 2, np.zeros_like(X))]


def test_slopes_of_the_signal_before_and_after_a_warp() -> None:
    levelled = warp_1d.measure(Levelling())
    parts = {part.part: part for part in levelled}
    length = 3 / (warp_1d.N_POSITIONS - 1)
    assert parts["wave"].slope_before == pytest.approx(4, rel=2 * length)  # a whole period
    halves = [parts[f"{half} half of the chirp"].slope_before for half in ("slow", "fast")]
    assert halves == pytest.approx([14, 34], rel=0.01)  # 1¾ and 4¼ periods in half a unit
    assert [part.slope_after for part in levelled] == pytest.approx([2] * 4)
    half = [part.slope_before / 2 for part in levelled]
    assert [part.stretch for part in levelled] == pytest.approx(half)
    assert warp_1d.unevenness(levelled) == pytest.approx((8.5, 1), rel=0.01)


def test_the_learnt_warp_straightens_the_signal(quick_run: tuple[Path, list[str]]) -> None:
    X, y = draw_rows(warp_1d.N_ROWS, torch.Generator().manual_seed(SEED))
    before, after = warp_1d.unevenness(warp_1d.measure(demo_regressor(1).fit(X, y)))
    assert after < 0.5 * before
    out, said = quick_run
    before, after = warp_1d.unevenness(read_rows(out / "figure-warp-1d.csv", warp_1d.Part))
    text = f"{before:.1f} before the warp, and of {after:.1f} after it"
    assert any(text in line for line in said)
