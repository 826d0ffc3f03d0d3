"""Every figure takes axes and names, and needs a fitted model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders.figures import (
    draw_rows,
    matplotlib_left_alone,  # noqa: F401 (for every test here)
    new_axes,
    one_input_model,
    small_regressor,
    two_input_model,
)
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
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


def check_drawn(ax: Axes) -> None:
    assert ax.has_data()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    legend = ax.get_legend()
    assert legend is None or not legend.get_frame_on()
    assert isinstance(ax.figure, Figure)
    png(ax.figure)


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
    # These draw results, not models, and have tests of their own.
    public -= {"plot_monitor", "plot_relevance", "plot_effect", "plot_local_metric"}
    assert len(public) == len(ONE_INPUT.keys() | TWO_INPUTS.keys()) - 1  # two kinds of map


@pytest.mark.parametrize("name", ONE_INPUT)
def test_an_unfitted_model_is_refused(name: str) -> None:
    with pytest.raises(NotFittedError):
        ONE_INPUT[name](small_regressor(output_warp="tanh"), None)
