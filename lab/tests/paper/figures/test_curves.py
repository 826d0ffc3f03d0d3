"""What figures share: curves, files and the check of requests."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders.figures import (
    matplotlib_left_alone,  # noqa: F401 (for every test)
    only_curve,
    score_panels,
)
from lab_builders.bench import make_request
from matplotlib.figure import Figure
from sswim_lab.paper.figures import overfitting, variants
from sswim_lab.paper.figures.curves import FEW, Curve, Metric, small_multiples, write_figure


def curves(n_points: int, std: float) -> dict[Metric, Curve]:
    x = np.arange(1.0, n_points + 1)
    return {
        "rmse": Curve(x, 2 * x, np.full_like(x, std)),
        "mnlp": Curve(x, -x, np.full_like(x, std)),
    }


@pytest.mark.parametrize("logarithmic", [False, True])
def test_every_data_set_has_a_column_of_two_panels(logarithmic: bool) -> None:
    both = {"airfoil": curves(2, 0.5), "creep": curves(2, 0.5)}
    figure = small_multiples(both, "steps", (1, 2), logarithmic=logarithmic)
    errors, densities = score_panels(figure, 2)
    assert [ax.get_title() for ax in errors] == ["airfoil", "creep"]
    assert [ax.get_ylabel() for ax in (errors[0], densities[0])] == [
        "RMSE, standardised",
        "MNLP, nats",
    ]
    for ax in errors:
        assert only_curve(ax) == ([1, 2], [2, 4])
    for ax in densities:
        assert only_curve(ax) == ([1, 2], [-1, -2])
        assert ax.get_xscale() == ("log" if logarithmic else "linear")
        assert list(ax.get_xticks()) == [1, 2]
        (band,) = ax.collections[0].get_paths()
        heights = np.asarray(band.vertices)[:, 1]
        assert (heights.min(), heights.max()) == (-2.5, -0.5)


def test_one_repeat_has_no_band_and_only_few_points_have_markers() -> None:
    few, many = (
        small_multiples({"creep": curves(n, np.nan)}, "steps", (1, n)).axes[0]
        for n in (FEW, FEW + 1)
    )
    assert (few.lines[0].get_marker(), many.lines[0].get_marker()) == ("o", "None")
    assert few.collections[0].get_paths() == []


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


@pytest.mark.parametrize("module", ["warp_1d", "gramacy"])
@pytest.mark.parametrize("choice", [{"sets": ("airfoil",)}, {"methods": ("sswim",)}])
def test_a_figure_with_its_own_rows_takes_no_sets_or_methods(
    module: str, choice: dict[str, Any], tmp_path: Path
) -> None:
    request, _ = make_request(tmp_path, quick=True, **choice)
    with pytest.raises(ValueError, match="has its own rows and model"):
        import_module(f"sswim_lab.paper.figures.{module}").run(request)


@pytest.mark.parametrize("run", [variants.PSEUDO_POINTS.run, variants.DEPTH.run, overfitting.run])
def test_other_methods_raise_an_error(run: Any, tmp_path: Path) -> None:
    request, _ = make_request(tmp_path, quick=True, methods=("sswim",))
    with pytest.raises(ValueError, match=r"The methods of figure-.* must be among paper-.*-quick"):
        run(request)
    assert not request.out.exists()
