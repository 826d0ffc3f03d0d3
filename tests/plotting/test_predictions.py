"""Figures of predictions and of input warps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from builders.figures import (
    draw_rows,
    legend_labels,
    new_axes,
    one_input_model,
    plain_model,
    small_regressor,
    two_input_model,
)
from builders.models import unchecked

from sswim import SSWIMRegressor
from sswim.plotting import plot_map, plot_prediction, plot_warped_data, plot_warps

SQUARE = ((0.0, 1.0), (0.0, 1.0))


def check_bands(ax: Any, model: SSWIMRegressor, x: np.ndarray, coverage: float) -> None:
    """Check the ends of the bands of a new observation and of the function."""
    for band, include_noise in zip(ax.collections, (True, False), strict=True):
        ends = band.get_datalim(ax.transData)
        lower, upper = model.predict_interval(x, coverage, include_noise=include_noise)
        np.testing.assert_allclose([ends.y0, ends.y1], [lower.min(), upper.max()])


def test_the_prediction_is_the_mean_within_its_bands() -> None:
    X, y = draw_rows(1)
    ax = plot_prediction(plain_model(), X, y, level=0.8, ax=new_axes())
    mean, points = ax.get_lines()
    x = np.asarray(mean.get_xdata())
    assert np.all(np.diff(x) > 0)
    assert np.isin(X, x).all()
    np.testing.assert_allclose(np.asarray(mean.get_ydata()), plain_model().predict(x[:, None]))
    np.testing.assert_array_equal(points.get_xydata(), np.column_stack([X, y]))
    check_bands(ax, plain_model(), x[:, None], 0.8)
    assert legend_labels(ax) == ["80 %, new observation", "80 %, function", "mean", "rows"]
    assert len(plot_prediction(plain_model(), X, ax=new_axes()).get_lines()) == 1


def test_under_an_output_warp_the_function_lies_around_the_median() -> None:
    ax = plot_prediction(one_input_model(), draw_rows(1)[0], ax=new_axes())
    median, mean = ax.get_lines()
    x = np.asarray(mean.get_xdata())[:, None]
    quantile = one_input_model().predict_quantiles(x, [0.5])[:, 0]
    np.testing.assert_allclose(np.asarray(median.get_ydata()), quantile)
    np.testing.assert_allclose(np.asarray(mean.get_ydata()), one_input_model().predict(x))
    assert np.abs(quantile - one_input_model().predict(x)).max() > 0
    check_bands(ax, one_input_model(), x, 0.9)
    assert legend_labels(ax) == ["90 %, new observation", "90 %, function", "median", "mean"]


def test_a_curve_over_many_rows_keeps_both_ends() -> None:
    many = np.random.default_rng(0).normal(size=20_000)
    line, _ = plot_warps(one_input_model(), many[:, None], ax=new_axes()).get_lines()[-2:]
    x = np.asarray(line.get_xdata())
    assert len(x) < 3000
    assert (x[0], x[-1]) == (many.min(), many.max())
    np.testing.assert_allclose(np.median(x), np.median(many), atol=0.1)


def test_a_map_has_the_values_of_its_cells_middles() -> None:
    model, bounds = two_input_model(), ((0.0, 2.0), (1.0, 2.0))
    ax = plot_map(model, bounds, resolution=2, ax=new_axes())
    (image,) = ax.get_images()
    middles = [[0.5, 1.25], [1.5, 1.25], [0.5, 1.75], [1.5, 1.75]]
    expected = np.reshape(model.predict(middles), (2, 2))
    np.testing.assert_allclose(np.asarray(image.get_array()), expected)
    assert image.origin == "lower"
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 2), (1, 2))
    # The uncertainty is that of the function.
    ax = plot_map(model, bounds, quantity="std", resolution=1, ax=new_axes())
    _, std = model.predict([[1.0, 1.5]], return_std=True, include_noise=False)
    np.testing.assert_allclose(np.asarray(ax.get_images()[0].get_array()), [std])
    X, _ = draw_rows(2)  # by default the map spans its rows
    ax = plot_map(model, X=X, resolution=3, ax=new_axes())
    np.testing.assert_allclose([ax.get_xlim(), ax.get_ylim()], np.stack([X.min(0), X.max(0)]).T)
    np.testing.assert_array_equal(np.asarray(ax.collections[0].get_offsets()), X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "neither bounds nor X; give one of them"),
        ({"bounds": ((1.0, 1.0), (0.0, 1.0))}, "x0 < x1"),
        ({"X": [[0.0, 1.0], [0.0, 2.0]]}, "x0 < x1"),
        ({"bounds": SQUARE, "quantity": "median"}, "quantity must be one of .* Got 'median'"),
        ({"bounds": SQUARE, "resolution": 0}, r"resolution must be at least 1\. Got 0"),
    ],
)
def test_impossible_maps_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unchecked(plot_map, regressor=two_input_model(), **settings)
    with pytest.raises(ValueError, match=r"needs a model with 2 inputs\. Got a model with 1"):
        plot_map(one_input_model(), SQUARE)


def test_warps_are_those_of_the_member_layer_by_layer() -> None:
    ax = plot_warps(one_input_model(), draw_rows(1)[0], member=1, ax=new_axes())
    *layers, identity = ax.get_lines()
    x = np.asarray(layers[0].get_xdata())
    warps = one_input_model().warp(x[:, None], member=1)
    for line, (mean, _) in zip(layers, warps, strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), mean[:, 0])
    assert identity.get_linestyle() == "--"
    np.testing.assert_array_equal(identity.get_xdata(), identity.get_ydata())
    X, _ = draw_rows(2)  # warps of several inputs are points
    ax = plot_warps(two_input_model(), X, column=1, ax=new_axes())
    expected = np.column_stack([X[:, 1], two_input_model().warp(X)[0][0][:, 1]])
    np.testing.assert_allclose(np.asarray(ax.get_lines()[0].get_xydata()), expected)
    assert ax.get_xlabel() == "input 2"


def test_warped_data_stand_where_the_last_warp_moves_them() -> None:
    X, y = draw_rows(1)
    ax = plot_warped_data(one_input_model(), X, y, ax=new_axes())
    points: Any = ax.collections[0]
    expected = np.column_stack([one_input_model().warp(X)[-1][0], y])
    np.testing.assert_allclose(np.asarray(points.get_offsets()), expected)
    np.testing.assert_array_equal(np.asarray(points.get_array()), X[:, 0])
    assert len(ax.figure.axes) == 2
    ax = plot_warped_data(one_input_model(), X, y, colour_bar=False, ax=new_axes())
    assert ax.figure.axes == [ax]


def test_models_without_warps_of_columns_have_none_to_draw() -> None:
    X, y = draw_rows(1)
    flat, full = small_regressor(depth=0).fit(X, y), small_regressor(warp_matrix="full").fit(X, y)
    with pytest.raises(ValueError, match="fit one with depth=1"):
        plot_warped_data(flat, X, y)
    with pytest.raises(ValueError, match="warp_matrix='full'; plot the coordinates that warp"):
        plot_warps(full, X)
