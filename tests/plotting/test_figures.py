"""What all figures share: axes, checks of models, rows and targets, and pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from builders.figures import (
    draw_rows,
    legend_labels,
    new_axes,
    one_input_model,
    small_regressor,
    two_input_model,
    two_target_model,
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

Draw = Callable[..., Axes]
ROWS_AND_TARGETS: tuple[Draw, ...] = (
    plot_prediction,
    plot_warped_data,
    plot_calibration,
    plot_pit,
)
ROWS: tuple[Draw, ...] = (plot_prediction, plot_warps, plot_noise)

ONE_INPUT: dict[str, Draw] = {
    **{draw.__name__: draw for draw in ROWS_AND_TARGETS},
    "plot_warps": lambda model, X, y, ax: plot_warps(model, X, ax=ax),
    "plot_noise": lambda model, X, y, ax: plot_noise(model, X, ax=ax),
    "plot_output_map": lambda model, X, y, ax: plot_output_map(model, y, ax=ax),
    "plot_history": lambda model, X, y, ax: plot_history(model, ax=ax),
}
TWO_INPUTS: dict[str, Draw] = {
    **{name: ONE_INPUT[name] for name in ("plot_calibration", "plot_pit", "plot_history")},
    "plot_map": lambda model, X, y, ax: plot_map(model, X=X, resolution=7, ax=ax),
    "plot_warps": lambda model, X, y, ax: plot_warps(model, X, column=1, ax=ax),
    "plot_noise": lambda model, X, y, ax: plot_noise(model, X, column=1, ax=ax),
}


def check_drawn(ax: Axes) -> None:
    assert ax.has_data()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    legend = ax.get_legend()
    assert legend is None or not legend.get_frame_on()
    assert [name for name, spine in ax.spines.items() if spine.get_visible()] == ["left", "bottom"]
    assert isinstance(ax.figure, Figure)
    png(ax.figure)


def test_every_figure_is_public_and_tested_here() -> None:
    public = {name for name in plotting.__all__ if name.startswith("plot_")}
    assert public == {name for name in dir(plotting) if name.startswith("plot_")}
    # These draw results, not models, and have tests of their own.
    public -= {"plot_monitor", "plot_relevance", "plot_effect", "plot_local_metric"}
    assert public == ONE_INPUT.keys() | TWO_INPUTS.keys()


@pytest.mark.parametrize(
    ("n_inputs", "name"), [*((1, name) for name in ONE_INPUT), *((2, name) for name in TWO_INPUTS)]
)
def test_given_axes_are_drawn_into_and_returned(n_inputs: int, name: str) -> None:
    ax, rows = new_axes(), draw_rows(n_inputs)
    if n_inputs == 1:
        assert ONE_INPUT[name](one_input_model(), *rows, ax=ax) is ax
    else:
        assert TWO_INPUTS[name](two_input_model(), *rows, ax=ax) is ax
    check_drawn(ax)


@pytest.mark.parametrize("name", ONE_INPUT)
def test_without_axes_there_is_a_new_figure(name: str) -> None:
    figure = ONE_INPUT[name](one_input_model(), *draw_rows(1), ax=None).figure
    assert isinstance(figure, Figure)
    assert plt.fignum_exists(figure.number)
    plt.close(figure)
    with pytest.raises(NotFittedError):
        ONE_INPUT[name](small_regressor(output_warp="tanh"), *draw_rows(1), ax=None)


def test_history_has_a_line_for_each_member() -> None:
    ax = plot_history(one_input_model(), ax=new_axes())
    for line, values in zip(ax.get_lines(), one_input_model().history_, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert legend_labels(ax) == ["member 1", "member 2"]


def test_data_frames_and_tensors_are_accepted() -> None:
    X, y = draw_rows(1)
    table = pytest.importorskip("pandas").DataFrame({"age": X[:, 0], "size": y})
    model = small_regressor(output_warp="tanh").fit(table[["age"]], table["size"])
    of_arrays = small_regressor().fit(X, y)
    for draw in ROWS_AND_TARGETS:
        draw(model, table[["age"]], table["size"], ax=new_axes())
        draw(of_arrays, torch.tensor(X), torch.tensor(y), ax=new_axes())
    for draw in ROWS:
        assert draw(model, table[["age"]], ax=new_axes()).get_xlabel() == "age"
        with pytest.raises(ValueError, match="feature names"):
            draw(model, table[["size"]])
    plot_output_map(model, table["size"], ax=new_axes())
    assert plot_prediction(of_arrays, X, ax=new_axes()).get_xlabel() == "input"


def test_a_single_target_may_be_a_column() -> None:
    X, y = draw_rows(1)
    vector, column = (
        small_regressor(output_warp="tanh").fit(X, targets) for targets in (y, y[:, None])
    )
    for name, draw in ONE_INPUT.items():
        expected = draw(vector, X, y, ax=new_axes())
        ax = draw(column, X, y[:, None], ax=new_axes())
        assert len(ax.collections) == len(expected.collections), name
        for line, other in zip(ax.get_lines(), expected.get_lines(), strict=True):
            np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())


def test_rows_targets_and_choices_that_do_not_fit_are_refused() -> None:
    (X, y), (X2, y2) = draw_rows(1), draw_rows(2)
    one, two, two_targets = one_input_model(), two_input_model(), two_target_model()
    single, inputs = r"a single target\. Got 2", r"needs a model with 1 input\. Got a model with 2"
    cases: list[tuple[tuple[Draw, ...], tuple[Any, ...], dict[str, Any], str]] = [
        (ROWS_AND_TARGETS, (two_targets, X, np.column_stack([y, -y])), {}, single),
        ((plot_prediction, plot_noise), (two_targets, X), {}, single),
        (ROWS_AND_TARGETS, (one, X, y[1:]), {}, "inconsistent numbers of samples"),
        ((plot_prediction, plot_warped_data), (two, X2, y2), {}, inputs),
    ]
    for number in (-1, 2):
        column, member = {"column": number}, {"member": number}
        wrong = f"one of the model's 2 members.*Got {number}"
        cases += [
            ((plot_warps, plot_noise), (two, X2), column, f"one of the 2 inputs.*Got {number}"),
            ((plot_warps,), (one, X), member, wrong),
            ((plot_warped_data,), (one, X, y), member, wrong),
            ((plot_output_map,), (one, y), member, wrong),
        ]
    for draws, arguments, options, message in cases:
        for draw in draws:
            with pytest.raises(ValueError, match=message):
                draw(*arguments, **options)
