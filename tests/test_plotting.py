from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from helpers import unchecked
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from PIL import Image
from sklearn.exceptions import NotFittedError

from sswim import plotting
from sswim.plotting import (
    plot_calibration,
    plot_history,
    plot_map,
    plot_prediction,
    plot_warped_data,
    plot_warps,
    png,
)
from sswim.regressor import SSWIMRegressor

Array = np.ndarray[Any, np.dtype[np.float64]]


def small(**settings: Any) -> SSWIMRegressor:
    common: dict[str, Any] = {"n_features": 32, "n_pseudo": 8, "max_iter": 5, "random_state": 0}
    return SSWIMRegressor(**common | settings)


def rows(n_inputs: int, n: int = 60) -> tuple[Array, Array]:
    random = np.random.default_rng(n_inputs)
    X = random.uniform(-2, 2, (n, n_inputs))
    return X, np.sin(3 * X).sum(1) + 0.1 * random.normal(size=n)


def means(model: SSWIMRegressor, X: Any) -> Array:
    mean = model.predict(X)
    assert isinstance(mean, np.ndarray)
    return mean


@pytest.fixture(scope="module")
def one() -> SSWIMRegressor:
    """One input, two warps, two members."""
    return small(depth=2, n_members=2).fit(*rows(1))


@pytest.fixture(scope="module")
def two() -> SSWIMRegressor:
    """Two inputs."""
    return small().fit(*rows(2))


@pytest.fixture
def ax() -> Axes:
    """Axes of a figure that pyplot knows nothing of."""
    return Figure().subplots()


@pytest.fixture(autouse=True)
def _global_state_of_matplotlib_is_left_alone() -> Iterator[None]:
    settings, figures = dict(mpl.rcParams), plt.get_fignums()
    yield
    assert dict(mpl.rcParams) == settings
    assert plt.get_fignums() == figures


ONE_INPUT: dict[str, Callable[..., Axes]] = {
    "prediction": lambda model, ax: plot_prediction(model, *rows(1), ax=ax),
    "warps": lambda model, ax: plot_warps(model, rows(1)[0], ax=ax),
    "warped data": lambda model, ax: plot_warped_data(model, *rows(1), ax=ax),
    "calibration": lambda model, ax: plot_calibration(model, *rows(1), ax=ax),
    "history": lambda model, ax: plot_history(model, ax=ax),
}
TWO_INPUTS: dict[str, Callable[..., Axes]] = {
    "mean": lambda model, ax: plot_map(model, X=rows(2)[0], resolution=7, ax=ax),
    "std": lambda model, ax: plot_map(
        model, ((0.0, 1.0), (0.0, 2.0)), quantity="std", resolution=7, ax=ax
    ),
    "warps": lambda model, ax: plot_warps(model, rows(2)[0], column=1, ax=ax),
    "calibration": lambda model, ax: plot_calibration(model, *rows(2), ax=ax),
    "history": lambda model, ax: plot_history(model, ax=ax),
}


@pytest.mark.parametrize("name", ONE_INPUT)
def test_given_axes_are_drawn_into_and_returned(one: SSWIMRegressor, ax: Axes, name: str) -> None:
    assert ONE_INPUT[name](one, ax) is ax
    check_drawn(ax)


@pytest.mark.parametrize("name", TWO_INPUTS)
def test_so_are_they_with_two_inputs(two: SSWIMRegressor, ax: Axes, name: str) -> None:
    assert TWO_INPUTS[name](two, ax) is ax
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
def test_without_axes_there_is_a_new_figure(one: SSWIMRegressor, name: str) -> None:
    drawn = ONE_INPUT[name](one, None)
    assert isinstance(drawn.figure, Figure)
    assert plt.fignum_exists(drawn.figure.number)
    plt.close(drawn.figure)


def test_axes_of_pyplot_are_drawn_into_without_a_second_figure(one: SSWIMRegressor) -> None:
    figure, ax = plt.subplots()
    figures = plt.get_fignums()
    for draw in ONE_INPUT.values():
        draw(one, ax)
    assert plt.get_fignums() == figures
    plt.close(figure)


def test_the_prediction_is_the_mean_within_its_bands(one: SSWIMRegressor, ax: Axes) -> None:
    X, y = rows(1)
    plot_prediction(one, X, y, coverage=0.8, ax=ax)
    mean, points = ax.get_lines()
    x = np.asarray(mean.get_xdata())
    assert np.all(np.diff(x) > 0)
    assert np.isin(X, x).all()
    np.testing.assert_allclose(np.asarray(mean.get_ydata()), means(one, x[:, None]))
    np.testing.assert_array_equal(points.get_xydata(), np.column_stack([X, y]))
    outer, inner = (band.get_datalim(ax.transData) for band in ax.collections)
    lower, upper = one.predict_interval(x[:, None], 0.8)
    np.testing.assert_allclose([outer.y0, outer.y1], [lower.min(), upper.max()])
    centre, std = one.predict(x[:, None], return_std=True, include_noise=False)
    reach = 1.2815515655446004 * std  # 80 % of a Gaussian
    np.testing.assert_allclose(inner.y0, (centre - reach).min())
    np.testing.assert_allclose(inner.y1, (centre + reach).max())
    labels = [text.get_text() for text in ax.get_legend().get_texts()]  # type: ignore[union-attr]
    assert labels == ["80 %, new observation", "80 %, function", "mean", "rows"]


def test_a_prediction_needs_no_targets(one: SSWIMRegressor, ax: Axes) -> None:
    assert len(plot_prediction(one, rows(1)[0], ax=ax).get_lines()) == 1


def test_of_very_many_rows_a_curve_takes_some_with_both_ends() -> None:
    many = np.random.default_rng(0).normal(size=100_000)
    positions = plotting._positions(many)
    assert len(positions) < 3000
    assert (positions[0], positions[-1]) == (many.min(), many.max())


def test_a_map_has_the_values_of_its_cells_middles(two: SSWIMRegressor, ax: Axes) -> None:
    plot_map(two, ((0.0, 2.0), (1.0, 2.0)), resolution=2, ax=ax)
    (image,) = ax.get_images()
    middles = [[0.5, 1.25], [1.5, 1.25], [0.5, 1.75], [1.5, 1.75]]
    expected = means(two, middles).reshape(2, 2)
    np.testing.assert_allclose(np.asarray(image.get_array()), expected)
    assert image.origin == "lower"
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 2), (1, 2))


def test_a_map_of_uncertainty_is_that_of_the_function(two: SSWIMRegressor, ax: Axes) -> None:
    plot_map(two, ((0.0, 2.0), (1.0, 2.0)), quantity="std", resolution=1, ax=ax)
    _, std = two.predict([[1.0, 1.5]], return_std=True, include_noise=False)
    (image,) = ax.get_images()
    np.testing.assert_allclose(np.asarray(image.get_array()), [std])


def test_a_map_spans_its_rows(two: SSWIMRegressor, ax: Axes) -> None:
    X, _ = rows(2)
    plot_map(two, X=X, resolution=3, ax=ax)
    np.testing.assert_allclose([ax.get_xlim(), ax.get_ylim()], np.stack([X.min(0), X.max(0)]).T)
    (points,) = ax.collections
    np.testing.assert_array_equal(np.asarray(points.get_offsets()), X)


@pytest.mark.parametrize("member", [0, 1])
def test_warps_are_those_of_the_member_layer_by_layer(
    one: SSWIMRegressor, ax: Axes, member: int
) -> None:
    plot_warps(one, rows(1)[0], member=member, ax=ax)
    *layers, identity = ax.get_lines()
    x = np.asarray(layers[0].get_xdata())
    for line, (mean, _) in zip(layers, one.warp(x[:, None], member=member), strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), mean[:, 0])
    assert identity.get_linestyle() == "--"
    np.testing.assert_array_equal(identity.get_xdata(), identity.get_ydata())


def test_warps_of_several_inputs_are_points(two: SSWIMRegressor, ax: Axes) -> None:
    X, _ = rows(2)
    plot_warps(two, X, column=1, ax=ax)
    points, _ = ax.get_lines()
    ((mean, _),) = two.warp(X)
    expected = np.column_stack([X[:, 1], mean[:, 1]])
    np.testing.assert_allclose(np.asarray(points.get_xydata()), expected)
    assert ax.get_xlabel() == "input 2"


def test_warped_data_stand_where_the_last_warp_moves_them(one: SSWIMRegressor, ax: Axes) -> None:
    X, y = rows(1)
    plot_warped_data(one, X, y, ax=ax)
    (points,) = ax.collections
    assert isinstance(points, PathCollection)
    expected = np.column_stack([one.warp(X)[-1][0], y])
    np.testing.assert_allclose(np.asarray(points.get_offsets()), expected)
    np.testing.assert_array_equal(np.asarray(points.get_array()), X[:, 0])
    assert len(ax.figure.axes) == 2


def test_the_colour_bar_of_warped_data_can_be_left_out(one: SSWIMRegressor, ax: Axes) -> None:
    plot_warped_data(one, *rows(1), colour_bar=False, ax=ax)
    assert ax.figure.axes == [ax]


def test_calibration_counts_targets_within_intervals(one: SSWIMRegressor, ax: Axes) -> None:
    X, y = rows(1)
    plot_calibration(one, X, y, ax=ax)
    diagonal, model = ax.get_lines()
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    levels, observed = np.asarray(model.get_xdata()), np.asarray(model.get_ydata())
    np.testing.assert_allclose(levels[[0, -1]], [0.05, 0.95])
    lower, upper = one.predict_interval(X, float(levels[9]))
    assert observed[9] == np.mean((lower <= y) & (y <= upper))
    assert np.all(np.diff(observed) >= 0)


def test_history_has_a_line_for_each_member(one: SSWIMRegressor, ax: Axes) -> None:
    plot_history(one, ax=ax)
    for line, values in zip(ax.get_lines(), one.history_, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert ax.get_legend() is not None


def test_data_frames_and_tensors_are_welcome() -> None:
    X, y = rows(1)
    table = pytest.importorskip("pandas").DataFrame({"age": X[:, 0], "size": y})
    model = small().fit(table[["age"]], table["size"])
    for draw in (plot_prediction, plot_warped_data, plot_calibration):
        ax = draw(model, table[["age"]], table["size"], ax=Figure().subplots())
    assert plot_warps(model, table[["age"]], ax=Figure().subplots()).get_xlabel() == "age"
    with pytest.raises(ValueError, match="feature names"):
        plot_prediction(model, table[["size"]], ax=ax)
    ax = Figure().subplots()
    plot_prediction(small().fit(X, y), torch.tensor(X), torch.tensor(y), ax=ax)
    assert ax.get_xlabel() == "input"


def test_a_single_target_may_be_a_column(ax: Axes) -> None:
    X, y = rows(1)
    model = small().fit(X, y[:, None])
    for draw in (plot_prediction, plot_warped_data, plot_calibration):
        draw(model, X, y[:, None], ax=ax)


@pytest.mark.parametrize("draw", [plot_prediction, plot_warped_data])
def test_two_inputs_where_one_can_be_drawn_are_refused(
    two: SSWIMRegressor, draw: Callable[..., Axes]
) -> None:
    with pytest.raises(ValueError, match=r"of a model with 1 input\. Got one with 2"):
        draw(two, *rows(2))


def test_one_input_where_two_can_be_drawn_is_refused(one: SSWIMRegressor) -> None:
    with pytest.raises(ValueError, match=r"of a model with 2 inputs\. Got one with 1"):
        plot_map(one, ((0.0, 1.0), (0.0, 1.0)))


@pytest.mark.parametrize("draw", [plot_prediction, plot_warped_data, plot_calibration])
def test_several_targets_are_refused(draw: Callable[..., Axes]) -> None:
    X, y = rows(1)
    model = small().fit(X, np.column_stack([y, -y]))
    with pytest.raises(ValueError, match=r"of a single target\. Got 2"):
        draw(model, X, np.column_stack([y, -y]))
    with pytest.raises(ValueError, match=r"of a single target\. Got 2"):
        plot_prediction(model, X)


@pytest.mark.parametrize("draw", [plot_prediction, plot_warped_data, plot_calibration])
def test_targets_of_other_rows_are_refused(one: SSWIMRegressor, draw: Callable[..., Axes]) -> None:
    X, y = rows(1)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        draw(one, X, y[1:])


def test_a_model_without_warps_has_none_to_draw() -> None:
    X, y = rows(1)
    model = small(depth=0).fit(X, y)
    with pytest.raises(ValueError, match="fit one with depth=1"):
        plot_warps(model, X)
    with pytest.raises(ValueError, match="fit one with depth=1"):
        plot_warped_data(model, X, y)


@pytest.mark.parametrize("member", [-1, 2])
def test_a_member_that_is_not_there_is_refused(one: SSWIMRegressor, member: int) -> None:
    with pytest.raises(ValueError, match=f"one of the 2 of the model.*Got {member}"):
        plot_warps(one, rows(1)[0], member=member)


@pytest.mark.parametrize("column", [-1, 2])
def test_a_column_that_is_not_there_is_refused(two: SSWIMRegressor, column: int) -> None:
    with pytest.raises(ValueError, match=f"one of the 2 inputs.*Got {column}"):
        plot_warps(two, rows(2)[0], column=column)


def test_a_map_without_rectangle_is_refused(two: SSWIMRegressor) -> None:
    with pytest.raises(ValueError, match="Give bounds, or rows X"):
        plot_map(two)
    with pytest.raises(ValueError, match="x0 < x1"):
        plot_map(two, ((1.0, 1.0), (0.0, 1.0)))
    with pytest.raises(ValueError, match="x0 < x1"):
        plot_map(two, X=[[0.0, 1.0], [0.0, 2.0]])


def test_impossible_choices_are_refused_by_name(two: SSWIMRegressor) -> None:
    square = ((0.0, 1.0), (0.0, 1.0))
    with pytest.raises(ValueError, match=r"quantity must be one of .* Got 'median'"):
        unchecked(plot_map, regressor=two, bounds=square, quantity="median")
    with pytest.raises(ValueError, match=r"resolution must be at least 1\. Got 0"):
        plot_map(two, square, resolution=0)


@pytest.mark.parametrize("name", ONE_INPUT)
def test_an_unfitted_model_is_refused(name: str) -> None:
    with pytest.raises(NotFittedError):
        ONE_INPUT[name](small(), None)


def test_a_figure_becomes_a_picture_of_its_size() -> None:
    figure = Figure(figsize=(3, 2))
    assert Image.open(io.BytesIO(png(figure, dpi=50))).size == (150, 100)


def test_the_core_does_not_import_matplotlib() -> None:
    code = "import sys, sswim; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
