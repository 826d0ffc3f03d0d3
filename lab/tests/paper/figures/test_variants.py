"""Figures of scores against a number in which variants of a method differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from builders.figures import (
    check_figure_files,
    matplotlib_left_alone,  # noqa: F401 (for every test here)
    only_curve,
    score_panels,
)
from lab_builders.bench import MeanOnly, make_request, row
from sswim_lab.bench.accuracy import SYNTHETIC, Row
from sswim_lab.bench.methods import QUICK, VARIANTS
from sswim_lab.bench.results import append_results, read_results, read_rows
from sswim_lab.paper.figures.variants import (
    DEPTH,
    PSEUDO_POINTS,
    Point,
    VariantsFigure,
    draw,
    summarise,
)


def scored(set_: str, method: str, repeat: int, rmse: float, mnlp: float) -> Row:
    return row(set_, method, repeat, rmse=float(rmse), mnlp=float(mnlp))


@pytest.mark.parametrize(("figure", "key"), [(PSEUDO_POINTS, "pseudo"), (DEPTH, "depth")])
def test_the_variants_are_those_of_the_bench(figure: VariantsFigure, key: str) -> None:
    for name, x in figure.methods.items():
        settings = VARIANTS[name].settings()
        assert (settings[key], settings["features"]) == (x, 256)
    assert set(figure.quick) <= set(figure.methods.values())


def test_finished_variants_are_not_repeated(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True, repeats=None)
    table, *pictures = PSEUDO_POINTS.run(request)
    check_figure_files("figure-pseudo-points", [table, *pictures], request.out)
    fits, numbers = (request.out / "fits.csv").read_bytes(), table.read_bytes()
    assert "2 fits to do, 0 done before." in said
    PSEUDO_POINTS.run(request)
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
    table, *_ = PSEUDO_POINTS.run(request)  # all results, although one method is requested
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
    errors, densities = score_panels(figure, 2)
    assert [ax.get_title() for ax in errors] == ["concrete", "airfoil"]
    for ax in errors:
        assert only_curve(ax) == ([0, 1], [2, 3])
        band = ax.collections[0].get_paths()[0].vertices
        assert {tuple(vertex) for vertex in np.asarray(band)} == {(0, 1), (0, 3), (1, 2), (1, 4)}
    for ax in densities:
        assert only_curve(ax) == ([0, 1], [0, -1])


def test_a_figure_without_a_fit_is_not_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for x in DEPTH.quick:
        monkeypatch.setitem(QUICK, f"paper-depth{x}-quick", MeanOnly(fails_on=(0,)))
    request, said = make_request(tmp_path, quick=True, repeats=1)
    assert DEPTH.run(request) == []
    assert said[-1] == "figure-depth is not drawn, because no fit worked."
    assert [failure.failure for failure in request.failures] == ["RuntimeError: no luck"] * 2


def test_rows_of_other_experiments_are_left_alone(tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, repeats=1)
    request.out.mkdir()
    append_results(request.out / "fits.csv", [row(SYNTHETIC, "sswim", 0)])
    table, *pictures = DEPTH.run(request)
    check_figure_files("figure-depth", [table, *pictures], request.out)
    assert {point.method for point in read_rows(table, Point)} == {
        "paper-depth0-quick",
        "paper-depth1-quick",
    }
    assert len(read_results(request.out / "fits.csv")) == 3
