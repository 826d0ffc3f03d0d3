"""Panels of scores."""

from __future__ import annotations

import numpy as np
import pytest
from builders.figures import (
    matplotlib_left_alone,  # noqa: F401 (for every test)
    only_curve,
    score_panels,
)
from sswim_lab.paper.figures.curves import FEW, Curve, Metric, small_multiples


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
