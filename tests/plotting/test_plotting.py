"""What all figures have in common, and the figure of training."""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from builders.figures import (
    matplotlib_left_alone,  # noqa: F401 (for every test here)
    new_axes,
    one,
    rows,
    small,
    two,
    two_targets,
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
from sswim.plotting.rows import positions, some

ONE_INPUT: dict[str, Callable[..., Axes]] = {
    "prediction": lambda model, ax: plot_prediction(model, *rows(1), ax=ax),
    "warps": lambda model, ax: plot_warps(model, rows(1)[0], ax=ax),
    "warped data": lambda model, ax: plot_warped_data(model, *rows(1), ax=ax),
    "calibration": lambda model, ax: plot_calibration(model, *rows(1), ax=ax),
    "PIT": lambda model, ax: plot_pit(model, *rows(1), ax=ax),
    "output map": lambda model, ax: plot_output_map(model, rows(1)[1], ax=ax),
    "noise": lambda model, ax: plot_noise(model, rows(1)[0], ax=ax),
    "history": lambda model, ax: plot_history(model, ax=ax),
}
TWO_INPUTS: dict[str, Callable[..., Axes]] = {
    "mean": lambda model, ax: plot_map(model, X=rows(2)[0], resolution=7, ax=ax),
    "std": lambda model, ax: plot_map(
        model, ((0.0, 1.0), (0.0, 2.0)), quantity="std", resolution=7, ax=ax
    ),
    "warps": lambda model, ax: plot_warps(model, rows(2)[0], column=1, ax=ax),
    "calibration": lambda model, ax: plot_calibration(model, *rows(2), ax=ax),
    "PIT": lambda model, ax: plot_pit(model, *rows(2), ax=ax),
    "noise": lambda model, ax: plot_noise(model, rows(2)[0], column=1, ax=ax),
    "history": lambda model, ax: plot_history(model, ax=ax),
}
OF_ROWS_AND_TARGETS: tuple[Callable[..., Axes], ...] = (
    plot_prediction,
    plot_warped_data,
    plot_calibration,
    plot_pit,
)
OF_ROWS: tuple[Callable[..., Axes], ...] = (plot_prediction, plot_warps, plot_noise)


@pytest.mark.parametrize("name", ONE_INPUT)
def test_given_axes_are_drawn_into_and_returned(name: str) -> None:
    ax = new_axes()
    assert ONE_INPUT[name](one(), ax) is ax
    check_drawn(ax)


@pytest.mark.parametrize("name", TWO_INPUTS)
def test_so_are_they_with_two_inputs(name: str) -> None:
    ax = new_axes()
    assert TWO_INPUTS[name](two(), ax) is ax
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
    drawn = ONE_INPUT[name](one(), None)
    assert isinstance(drawn.figure, Figure)
    assert plt.fignum_exists(drawn.figure.number)
    plt.close(drawn.figure)


def test_axes_of_pyplot_are_drawn_into_without_a_second_figure() -> None:
    figure, ax = plt.subplots()
    figures = plt.get_fignums()
    for draw in ONE_INPUT.values():
        draw(one(), ax)
    assert plt.get_fignums() == figures
    plt.close(figure)


def test_every_figure_is_offered_and_tried_here() -> None:
    offered = {name for name in plotting.__all__ if name.startswith("plot_")}
    assert offered == {name for name in dir(plotting) if name.startswith("plot_")}
    assert len(offered) == len(ONE_INPUT.keys() | TWO_INPUTS.keys()) - 1  # two kinds of map


def test_of_very_many_rows_a_curve_takes_some_with_both_ends() -> None:
    many = np.random.default_rng(0).normal(size=100_000)
    x = positions(many)
    assert len(x) < 3000
    assert (x[0], x[-1]) == (many.min(), many.max())
    np.testing.assert_allclose(np.median(some(many)), np.median(many), atol=1e-2)


def test_history_has_a_line_for_each_member() -> None:
    ax = plot_history(one(), ax=new_axes())
    for line, values in zip(ax.get_lines(), one().history_, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert ax.get_legend() is not None


def test_data_frames_and_tensors_are_welcome() -> None:
    X, y = rows(1)
    table = pytest.importorskip("pandas").DataFrame({"age": X[:, 0], "size": y})
    model = small(output_warp="tanh").fit(table[["age"]], table["size"])
    for draw in OF_ROWS_AND_TARGETS:
        draw(model, table[["age"]], table["size"], ax=new_axes())
        draw(small().fit(X, y), torch.tensor(X), torch.tensor(y), ax=new_axes())
    for draw in OF_ROWS:
        assert draw(model, table[["age"]], ax=new_axes()).get_xlabel() == "age"
    plot_output_map(model, table["size"], ax=new_axes())
    plot_output_map(model, torch.tensor(y), ax=new_axes())
    for draw in OF_ROWS:
        with pytest.raises(ValueError, match="feature names"):
            draw(model, table[["size"]])
    assert plot_prediction(small().fit(X, y), X, ax=new_axes()).get_xlabel() == "input"


def test_a_single_target_may_be_a_column() -> None:
    X, y = rows(1)
    model = small(output_warp="tanh").fit(X, y[:, None])
    ax = new_axes()
    for draw in OF_ROWS_AND_TARGETS:
        draw(model, X, y[:, None], ax=ax)
    plot_output_map(model, y[:, None], ax=ax)
    plot_noise(model, X, ax=ax)


@pytest.mark.parametrize("draw", OF_ROWS_AND_TARGETS)
def test_several_targets_are_refused(draw: Callable[..., Axes]) -> None:
    X, y = rows(1)
    with pytest.raises(ValueError, match=r"of a single target\. Got 2"):
        draw(two_targets(), X, np.column_stack([y, -y]))


@pytest.mark.parametrize("draw", [plot_prediction, plot_noise])
def test_so_are_they_without_targets_to_draw(draw: Callable[..., Axes]) -> None:
    with pytest.raises(ValueError, match=r"of a single target\. Got 2"):
        draw(two_targets(), rows(1)[0])


@pytest.mark.parametrize("draw", OF_ROWS_AND_TARGETS)
def test_targets_of_other_rows_are_refused(draw: Callable[..., Axes]) -> None:
    X, y = rows(1)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        draw(one(), X, y[1:])


@pytest.mark.parametrize("draw", [plot_warps, plot_noise])
@pytest.mark.parametrize("column", [-1, 2])
def test_a_column_that_is_not_there_is_refused(draw: Callable[..., Axes], column: int) -> None:
    with pytest.raises(ValueError, match=f"one of the 2 inputs.*Got {column}"):
        draw(two(), rows(2)[0], column=column)


@pytest.mark.parametrize("name", ONE_INPUT)
def test_an_unfitted_model_is_refused(name: str) -> None:
    with pytest.raises(NotFittedError):
        ONE_INPUT[name](small(output_warp="tanh"), None)


def test_a_figure_becomes_a_picture_of_its_size() -> None:
    figure = Figure(figsize=(3, 2))
    assert Image.open(io.BytesIO(png(figure, dpi=50))).size == (150, 100)


def test_the_core_does_not_import_matplotlib() -> None:
    code = "import sys, sswim; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
