"""Figures of the paper: their files, and what the two with rows of their own show."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders.bench import make_request
from builders.figures import matplotlib_left_alone  # noqa: F401 (for every test)
from matplotlib.figure import Figure
from PIL import Image

from sswim.estimator.regressor import SSWIMRegressor
from sswim.lab.bench.dataclass_csv import append_rows, read_rows, write_rows
from sswim.lab.datasets import nonstationary_signal
from sswim.lab.datasets.synthetic import gramacy_surface
from sswim.lab.demo import SEED, demo_regressor, draw_rows
from sswim.lab.paper.figures import gramacy, warp_1d
from sswim.lab.paper.figures.figure_files import write_figure
from sswim.lab.paper.figures.gramacy import PointConcentration, measure_concentration
from sswim.lab.paper.figures.surfaces import Cell, PseudoPoint
from sswim.lab.paper.figures.warp_1d import N_POSITIONS, Part, measure, unevenness

MODULES = ("warp_1d", "pseudo_points", "depth", "overfitting", "gramacy")


@dataclass(frozen=True)
class Numbers:
    text: str
    whole: int
    real: float


@pytest.mark.parametrize("module", MODULES)
def test_every_figure_is_written_without_data_sets(module: str, tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, repeats=None)
    paths = import_module(f"sswim.lab.paper.figures.{module}").run(request)
    name = f"figure-{module.replace('_', '-')}"
    assert {f"{name}.csv", f"{name}.png", f"{name}.pdf"} <= {path.name for path in paths}
    assert all(path.parent == request.out for path in paths)
    written = {path.name for path in request.out.iterdir()} - {"fits.csv"}
    assert written == {path.name for path in paths}
    with Image.open(request.out / f"{name}.png") as picture:
        assert picture.info["dpi"][0] >= 150
        assert (np.asarray(picture.convert("L")) < 200).mean() > 0.005
    assert (request.out / f"{name}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("module", ["warp_1d", "gramacy"])
@pytest.mark.parametrize("choice", [{"sets": ("airfoil",)}, {"methods": ("sswim",)}])
def test_a_figure_with_its_own_rows_takes_no_sets_or_methods(
    module: str, choice: dict[str, Any], tmp_path: Path
) -> None:
    request, _ = make_request(tmp_path, quick=True, **choice)
    with pytest.raises(ValueError, match="has its own rows and model"):
        import_module(f"sswim.lab.paper.figures.{module}").run(request)


def test_numbers_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    assert read_rows(path, Numbers) == []
    path.touch()
    assert read_rows(path, Numbers) == []
    rows = [Numbers('with "quotes", commas\nand lines', 1, 0.1), Numbers("", -2, math.inf)]
    append_rows(path, rows[:1], Numbers)
    append_rows(path, rows[1:], Numbers)
    assert read_rows(path, Numbers) == rows
    appended = path.read_bytes()
    write_rows(path, rows, Numbers)
    assert path.read_bytes() == appended


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,whole\n", "must start with the columns text,whole,real"),
        ("text,whole,real\na,1,2\na,1\n", "Line 3 of .* is not a result"),
        ("text,whole,real\na,1,x\n", "Line 2 of .* is not a result"),
    ],
)
def test_wrong_csv_files_raise_an_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_rows(path, Numbers)


def test_the_same_figure_makes_the_same_files(tmp_path: Path) -> None:
    contents = []
    for name in ("one", "two"):
        figure = Figure()
        figure.subplots().plot([1, 2])
        contents.append([path.read_bytes() for path in write_figure(figure, tmp_path, name)])
    assert contents[0] == contents[1]


def test_an_interruption_leaves_the_picture_that_was_there(tmp_path: Path) -> None:
    class Interrupted(Figure):
        def savefig(self, *arguments: Any, **others: Any) -> None:
            super().savefig(*arguments, **others)
            raise KeyboardInterrupt

    before = [path.read_bytes() for path in write_figure(Figure(), tmp_path, "picture")]
    with pytest.raises(KeyboardInterrupt):
        write_figure(Interrupted(figsize=(1, 1)), tmp_path, "picture")
    names = ("picture.png", "picture.pdf")
    assert [(tmp_path / name).read_bytes() for name in names] == before
    assert len(list(tmp_path.iterdir())) == 2


class Identity(SSWIMRegressor):
    """A warp that changes nothing."""

    def warp(self, X: Any, X_std: Any = None, member: int | None = None) -> list[Any]:
        return [(X, np.zeros_like(X))]


class Levelling(Identity):
    """A warp along which the signal goes up and down at a slope of two."""

    def warp(self, X: Any, X_std: Any = None, member: int | None = None) -> list[Any]:
        signal = nonstationary_signal(torch.from_numpy(X)).numpy()
        steps = np.abs(np.diff(signal, axis=0, prepend=signal[:1]))
        return [(np.cumsum(steps, axis=0) / 2, np.zeros_like(X))]


def test_slopes_are_those_of_the_signal_without_a_warp() -> None:
    parts = {part.part: part for part in measure(Identity())}
    for part in parts.values():
        assert part.stretch == pytest.approx(1)
        assert part.slope_after == pytest.approx(part.slope_before)
    length = 3 / (N_POSITIONS - 1)
    assert parts["wave"].slope_before == pytest.approx(4, rel=2 * length)  # a whole period
    halves = [parts[f"{half} half of the chirp"].slope_before for half in ("slow", "fast")]
    assert halves == pytest.approx([14, 34], rel=0.01)  # 1¾ and 4¼ periods in half a unit
    before, after = unevenness(list(parts.values()))
    assert before == pytest.approx(after) == pytest.approx(8.5, rel=0.01)


def test_a_warp_that_levels_the_signal_is_measured_as_such() -> None:
    parts = measure(Levelling())
    assert [part.slope_after for part in parts] == pytest.approx([2] * 4)
    assert [part.stretch for part in parts] == pytest.approx([p.slope_before / 2 for p in parts])
    assert unevenness(parts)[1] == pytest.approx(1)


def test_the_learnt_warp_straightens_the_signal() -> None:
    X, y = draw_rows(warp_1d.N_ROWS, torch.Generator().manual_seed(SEED))
    before, after = unevenness(measure(demo_regressor(1).fit(X, y)))
    assert after < 0.5 * before


def test_the_slopes_of_the_file_are_those_of_the_message(tmp_path: Path) -> None:
    request, said = make_request(tmp_path, quick=True)
    path, *_ = warp_1d.run(request)
    before, after = unevenness(read_rows(path, Part))
    assert f"{before:.1f} before the warp, and of {after:.1f} after it" in said[0]


def test_the_surface_has_a_hill_and_a_valley_in_a_corner() -> None:
    x = torch.tensor([[2**-0.5, 0], [-(2**-0.5), 0], [0, 1], [4, 4]], dtype=torch.float64)
    height = math.exp(-0.5) / math.sqrt(2)
    expected = torch.tensor([height, -height, 0, 0], dtype=torch.float64)
    torch.testing.assert_close(gramacy_surface(x), expected, atol=1e-12, rtol=1e-12)


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
    gramacy.run(request)
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
