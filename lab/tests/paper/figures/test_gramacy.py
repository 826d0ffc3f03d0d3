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
from sswim_lab.bench.results import read_rows
from sswim_lab.paper.figures import gramacy
from sswim_lab.paper.figures.gramacy import (
    Cell,
    PointConcentration,
    PseudoPoint,
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
