"""Rows and targets that figures accept, and the points of their curves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from builders.figures import (
    draw_rows,
    matplotlib_left_alone,  # noqa: F401 (for every test here)
    new_axes,
    one_input_model,
    small_regressor,
    two_input_model,
    two_target_model,
)
from matplotlib.axes import Axes

from sswim.plotting import (
    plot_calibration,
    plot_noise,
    plot_output_map,
    plot_pit,
    plot_prediction,
    plot_warped_data,
    plot_warps,
)
from sswim.plotting.style import curve_points, thin

FIGURES_OF_ROWS_AND_TARGETS: tuple[Callable[..., Axes], ...] = (
    plot_prediction,
    plot_warped_data,
    plot_calibration,
    plot_pit,
)
FIGURES_OF_ROWS: tuple[Callable[..., Axes], ...] = (plot_prediction, plot_warps, plot_noise)


def assert_same_lines(ax: Axes, expected: Axes) -> None:
    assert len(ax.collections) == len(expected.collections)
    for line, other in zip(ax.get_lines(), expected.get_lines(), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())


def test_a_curve_over_many_rows_keeps_both_ends() -> None:
    many = np.random.default_rng(0).normal(size=100_000)
    x = curve_points(many)
    assert len(x) < 3000
    assert (x[0], x[-1]) == (many.min(), many.max())
    np.testing.assert_allclose(np.median(thin(many)), np.median(many), atol=1e-2)


def test_data_frames_and_tensors_are_accepted() -> None:
    X, y = draw_rows(1)
    table = pytest.importorskip("pandas").DataFrame({"age": X[:, 0], "size": y})
    model = small_regressor(output_warp="tanh").fit(table[["age"]], table["size"])
    for draw in FIGURES_OF_ROWS_AND_TARGETS:
        draw(model, table[["age"]], table["size"], ax=new_axes())
        draw(small_regressor().fit(X, y), torch.tensor(X), torch.tensor(y), ax=new_axes())
    for draw in FIGURES_OF_ROWS:
        assert draw(model, table[["age"]], ax=new_axes()).get_xlabel() == "age"
    plot_output_map(model, table["size"], ax=new_axes())
    plot_output_map(model, torch.tensor(y), ax=new_axes())
    for draw in FIGURES_OF_ROWS:
        with pytest.raises(ValueError, match="feature names"):
            draw(model, table[["size"]])
    assert plot_prediction(small_regressor().fit(X, y), X, ax=new_axes()).get_xlabel() == "input"


def test_a_single_target_may_be_a_column() -> None:
    X, y = draw_rows(1)
    vector = small_regressor(output_warp="tanh").fit(X, y)
    column = small_regressor(output_warp="tanh").fit(X, y[:, None])
    for draw in FIGURES_OF_ROWS_AND_TARGETS:
        expected = draw(vector, X, y, ax=new_axes())
        assert_same_lines(draw(column, X, y[:, None], ax=new_axes()), expected)
    expected = plot_output_map(vector, y, ax=new_axes())
    assert_same_lines(plot_output_map(column, y[:, None], ax=new_axes()), expected)
    expected = plot_noise(vector, X, ax=new_axes())
    assert_same_lines(plot_noise(column, X, ax=new_axes()), expected)


@pytest.mark.parametrize("draw", FIGURES_OF_ROWS_AND_TARGETS)
def test_several_targets_are_refused(draw: Callable[..., Axes]) -> None:
    X, y = draw_rows(1)
    with pytest.raises(ValueError, match=r"a single target\. Got 2"):
        draw(two_target_model(), X, np.column_stack([y, -y]))


@pytest.mark.parametrize("draw", [plot_prediction, plot_noise])
def test_several_targets_are_refused_without_targets_to_draw(draw: Callable[..., Axes]) -> None:
    with pytest.raises(ValueError, match=r"a single target\. Got 2"):
        draw(two_target_model(), draw_rows(1)[0])


@pytest.mark.parametrize("draw", FIGURES_OF_ROWS_AND_TARGETS)
def test_targets_of_other_rows_are_refused(draw: Callable[..., Axes]) -> None:
    X, y = draw_rows(1)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        draw(one_input_model(), X, y[1:])


@pytest.mark.parametrize("draw", [plot_warps, plot_noise])
@pytest.mark.parametrize("column", [-1, 2])
def test_a_column_that_is_not_there_is_refused(draw: Callable[..., Axes], column: int) -> None:
    with pytest.raises(ValueError, match=f"one of the 2 inputs.*Got {column}"):
        draw(two_input_model(), draw_rows(2)[0], column=column)
