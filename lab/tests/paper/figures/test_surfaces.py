"""Panels of a function of two inputs."""

from __future__ import annotations

import numpy as np
from builders.figures import matplotlib_left_alone  # noqa: F401 (for every test)
from matplotlib.lines import Line2D
from sswim_lab.paper.figures.gramacy import Cell, PseudoPoint, eight_panels


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
