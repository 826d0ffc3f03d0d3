"""Tests that all figures share, and tests of the figure of training."""

from __future__ import annotations

import io
import subprocess
import sys
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
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from sklearn.exceptions import NotFittedError

from sswim import plotting
from sswim.plotting import (
    plot_calibration,
    plot_history,
    plot_map,
    plot_noise,
    plot_output_map,
    plot_pit,
    plot_prediction,
    plot_warped_data,
    plot_warps,
    png,
)
from sswim.plotting.inputs import curve_points, thin

ONE_INPUT: dict[str, Callable[..., Axes]] = {
    "prediction": lambda model, ax: plot_prediction(model, *draw_rows(1), ax=ax),
    "warps": lambda model, ax: plot_warps(model, draw_rows(1)[0], ax=ax),
    "warped data": lambda model, ax: plot_warped_data(model, *draw_rows(1), ax=ax),
    "calibration": lambda model, ax: plot_calibration(model, *draw_rows(1), ax=ax),
    "PIT": lambda model, ax: plot_pit(model, *draw_rows(1), ax=ax),
    "output map": lambda model, ax: plot_output_map(model, draw_rows(1)[1], ax=ax),
    "noise": lambda model, ax: plot_noise(model, draw_rows(1)[0], ax=ax),
    "history": lambda model, ax: plot_history(model, ax=ax),
}
TWO_INPUTS: dict[str, Callable[..., Axes]] = {
    "mean": lambda model, ax: plot_map(model, X=draw_rows(2)[0], resolution=7, ax=ax),
    "std": lambda model, ax: plot_map(
        model, ((0.0, 1.0), (0.0, 2.0)), quantity="std", resolution=7, ax=ax
    ),
    "warps": lambda model, ax: plot_warps(model, draw_rows(2)[0], column=1, ax=ax),
    "calibration": lambda model, ax: plot_calibration(model, *draw_rows(2), ax=ax),
    "PIT": lambda model, ax: plot_pit(model, *draw_rows(2), ax=ax),
    "noise": lambda model, ax: plot_noise(model, draw_rows(2)[0], column=1, ax=ax),
    "history": lambda model, ax: plot_history(model, ax=ax),
}
FIGURES_OF_ROWS_AND_TARGETS: tuple[Callable[..., Axes], ...] = (
    plot_prediction,
    plot_warped_data,
    plot_calibration,
    plot_pit,
)
FIGURES_OF_ROWS: tuple[Callable[..., Axes], ...] = (plot_prediction, plot_warps, plot_noise)


@pytest.mark.parametrize("name", ONE_INPUT)
def test_given_axes_are_drawn_into_and_returned(name: str) -> None:
    ax = new_axes()
    assert ONE_INPUT[name](one_input_model(), ax) is ax
    check_drawn(ax)


@pytest.mark.parametrize("name", TWO_INPUTS)
def test_given_axes_are_drawn_into_with_two_inputs(name: str) -> None:
    ax = new_axes()
    assert TWO_INPUTS[name](two_input_model(), ax) is ax
    check_drawn(ax)


def check_drawn(ax: Axes) -> None:
    assert ax.has_data()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    legend = ax.get_legend()
    assert legend is None or not legend.get_frame_on()
    assert isinstance(ax.figure, Figure)
    png(ax.figure)


@pytest.mark.parametrize("name", ONE_INPUT)
def test_without_axes_there_is_a_new_figure(name: str) -> None:
    drawn = ONE_INPUT[name](one_input_model(), None)
    assert isinstance(drawn.figure, Figure)
    assert plt.fignum_exists(drawn.figure.number)
    plt.close(drawn.figure)


def test_axes_of_pyplot_are_drawn_into_without_a_second_figure() -> None:
    figure, ax = plt.subplots()
    figures = plt.get_fignums()
    for draw in ONE_INPUT.values():
        draw(one_input_model(), ax)
    assert plt.get_fignums() == figures
    plt.close(figure)


def test_every_figure_is_public_and_tested_here() -> None:
    public = {name for name in plotting.__all__ if name.startswith("plot_")}
    assert public == {name for name in dir(plotting) if name.startswith("plot_")}
    assert len(public) == len(ONE_INPUT.keys() | TWO_INPUTS.keys()) - 1  # two kinds of map


def test_a_curve_over_many_rows_keeps_both_ends() -> None:
    many = np.random.default_rng(0).normal(size=100_000)
    x = curve_points(many)
    assert len(x) < 3000
    assert (x[0], x[-1]) == (many.min(), many.max())
    np.testing.assert_allclose(np.median(thin(many)), np.median(many), atol=1e-2)


def test_history_has_a_line_for_each_member() -> None:
    ax = plot_history(one_input_model(), ax=new_axes())
    for line, values in zip(ax.get_lines(), one_input_model().history_, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert ax.get_legend() is not None


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


def assert_same_lines(ax: Axes, expected: Axes) -> None:
    assert len(ax.collections) == len(expected.collections)
    for line, other in zip(ax.get_lines(), expected.get_lines(), strict=True):
        np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())


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


@pytest.mark.parametrize("name", ONE_INPUT)
def test_an_unfitted_model_is_refused(name: str) -> None:
    with pytest.raises(NotFittedError):
        ONE_INPUT[name](small_regressor(output_warp="tanh"), None)


def test_a_figure_becomes_a_picture_of_its_size() -> None:
    figure = Figure(figsize=(3, 2))
    assert Image.open(io.BytesIO(png(figure, dpi=50))).size == (150, 100)


def test_import_sswim_does_not_import_matplotlib() -> None:
    code = "import sys, sswim; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
