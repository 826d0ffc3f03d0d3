"""The figure of a function of two inputs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from builders.figures import (
    check_figure_files,
    matplotlib_left_alone,  # noqa: F401 (for every test here)
)
from lab_builders.bench import make_request
from matplotlib.lines import Line2D
from sswim_lab.bench.results import read_rows
from sswim_lab.paper.figures import gramacy
from sswim_lab.paper.figures.gramacy import (
    Cell,
    PointConcentration,
    PseudoPoint,
    eight_panels,
    gramacy_surface,
    measure_concentration,
)


def test_the_concentration_of_points_is_measured() -> None:
    at_hill = np.array([[1.0, 0], [0, 2], [-2, -2]])
    flat = np.array([[4.0, 4], [5, 4], [6, 6], [3, 1], [-1, 6]])
    near, mirrored, distance, spacing = measure_concentration([at_hill])
    assert (near, mirrored) == pytest.approx((2 / 3, 0))
    assert distance == pytest.approx((1 + 2 + 8**0.5) / 3)
    assert spacing == pytest.approx(5**0.5)
    near, mirrored, _, spacing = measure_concentration([flat])
    assert (near, mirrored) == (0, 0.4)
    assert spacing == pytest.approx(5**0.5)
    assert measure_concentration([at_hill, at_hill])[:3] == pytest.approx(
        measure_concentration([at_hill])[:3]
    )
    # A point is compared with those of its own function.
    assert measure_concentration([at_hill, at_hill])[3] == pytest.approx(5**0.5)


def test_the_files_of_the_surface_hold_what_is_measured_and_drawn(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True)
    check_figure_files("figure-gramacy", gramacy.run(request), request.out)
    points = read_rows(request.out / "figure-gramacy-points.csv", PseudoPoint)
    measured = read_rows(request.out / "figure-gramacy.csv", PointConcentration)
    assert [(each.repeat, each.when) for each in measured] == [
        *((0, "before"), (0, "after")),
        *((1, "before"), (1, "after")),
    ]
    for each in measured[:2]:
        x1, x2 = f"x1_{each.when}", f"x2_{each.when}"
        functions = [
            np.array([(getattr(p, x1), getattr(p, x2)) for p in points if p.function == function])
            for function in "gh"
        ]
        numbers = (each.share_near, each.share_mirrored, each.distance, each.spacing)
        assert measure_concentration(functions) == pytest.approx(numbers)
    assert said[0].startswith("Before training")
    cells = read_rows(request.out / "figure-gramacy-surface.csv", Cell)
    errors = [cell.prediction - cell.truth for cell in cells]
    assert math.hypot(*errors) / len(cells) ** 0.5 == pytest.approx(measured[1].rmse)
    x = torch.tensor([(cell.x1, cell.x2) for cell in cells], dtype=torch.float64)
    assert [cell.truth for cell in cells] == pytest.approx(gramacy_surface(x).tolist())


def test_pseudo_points_start_all_over_the_domain(tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True)
    X, y = gramacy.draw_rows(200, 0)
    before = np.concatenate(gramacy.fit(request, X, y, 0).before.pseudo_inputs())
    low, high = before.min(axis=0), before.max(axis=0)
    beyond = 0.2 * (gramacy.HIGH - gramacy.LOW)  # on each side, as published
    assert (low < -2).all()
    assert (low > gramacy.LOW - beyond).all()
    assert (high > 6).all()
    assert (high < gramacy.HIGH + beyond).all()


def points_of(line: Line2D) -> list[list[float]]:
    return np.asarray(line.get_xydata()).tolist()


def test_the_panels_show_the_cells_and_the_moves_of_pseudo_points() -> None:
    along = (0.0, 1.0, 2.0)
    cells = [
        Cell(
            x1, x2, truth=x1 + 10 * x2, prediction=x1, warped_x1=2 * x1, warped_x2=x2, variance=1.0
        )
        for x2 in along
        for x1 in along
    ]
    points = [PseudoPoint("g", 0.0, 1.0, 1.0, 1.5), PseudoPoint("h", 2.0, 2.0, 0.5, 0.0)]
    X = np.array([[0.5, 1.0], [1.5, 0.0]])
    figure = eight_panels(X, np.array([1.0, 2.0]), cells, points, near=0.75)
    panels = {ax.get_title(loc="left")[:3]: ax for ax in figure.axes if ax.get_title(loc="left")}
    assert list(panels) == [f"({letter})" for letter in "abcdefgh"]
    np.testing.assert_array_equal(np.asarray(panels["(a)"].collections[0].get_offsets()), X)
    for letter, quantity in (("b", "truth"), ("c", "prediction"), ("e", "warped_x1")):
        (image,) = panels[f"({letter})"].get_images()
        shown = np.asarray(image.get_array())
        assert shown.ravel().tolist() == [getattr(cell, quantity) for cell in cells]
        assert image.origin == "lower"
    *moves, before, after_g, after_h = panels["(d)"].get_lines()
    assert [points_of(line) for line in moves] == [
        [[0.0, 1.0], [1.0, 1.5]],
        [[2.0, 2.0], [0.5, 0.0]],
    ]
    assert points_of(before) == [[0.0, 1.0], [2.0, 2.0]]
    assert points_of(after_g) == [[1.0, 1.5]]
    assert points_of(after_h) == [[0.5, 0.0]]


def test_the_surface_has_a_hill_and_a_valley_in_a_corner() -> None:
    x = torch.tensor([[2**-0.5, 0], [-(2**-0.5), 0], [0, 1], [4, 4]], dtype=torch.float64)
    height = math.exp(-0.5) / math.sqrt(2)
    expected = torch.tensor([height, -height, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(gramacy.gramacy_surface(x), expected, atol=1e-12, rtol=1e-12)
