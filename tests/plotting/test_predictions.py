from __future__ import annotations

import numpy as np
import pytest
from builders.figures import (
    draw_rows,
    legend_labels,
    matplotlib_left_alone,  # noqa: F401 (for every test here)
    new_axes,
    one_input_model,
    plain_model,
    predicted_mean,
    two_input_model,
)
from builders.models import unchecked

from sswim.plotting import plot_map, plot_prediction


def test_the_prediction_is_the_mean_within_its_bands() -> None:
    X, y = draw_rows(1)
    ax = plot_prediction(plain_model(), X, y, level=0.8, ax=new_axes())
    mean, points = ax.get_lines()
    x = np.asarray(mean.get_xdata())
    assert np.all(np.diff(x) > 0)
    assert np.isin(X, x).all()
    np.testing.assert_allclose(
        np.asarray(mean.get_ydata()), predicted_mean(plain_model(), x[:, None])
    )
    np.testing.assert_array_equal(points.get_xydata(), np.column_stack([X, y]))
    outer, inner = (band.get_datalim(ax.transData) for band in ax.collections)
    lower, upper = plain_model().predict_interval(x[:, None], 0.8)
    np.testing.assert_allclose([outer.y0, outer.y1], [lower.min(), upper.max()])
    lower, upper = plain_model().predict_interval(x[:, None], 0.8, include_noise=False)
    np.testing.assert_allclose([inner.y0, inner.y1], [lower.min(), upper.max()])
    assert legend_labels(ax) == ["80 %, new observation", "80 %, function", "mean", "rows"]


def test_under_an_output_warp_the_function_lies_around_the_median() -> None:
    ax = plot_prediction(one_input_model(), draw_rows(1)[0], ax=new_axes())
    median, mean = ax.get_lines()
    x = np.asarray(mean.get_xdata())[:, None]
    quantile = one_input_model().predict_quantiles(x, [0.5])[:, 0]
    np.testing.assert_allclose(np.asarray(median.get_ydata()), quantile)
    np.testing.assert_allclose(np.asarray(mean.get_ydata()), predicted_mean(one_input_model(), x))
    assert np.abs(quantile - predicted_mean(one_input_model(), x)).max() > 0
    outer, inner = (band.get_datalim(ax.transData) for band in ax.collections)
    lower, upper = one_input_model().predict_interval(x, 0.9)
    np.testing.assert_allclose([outer.y0, outer.y1], [lower.min(), upper.max()])
    lower, upper = one_input_model().predict_interval(x, 0.9, include_noise=False)
    np.testing.assert_allclose([inner.y0, inner.y1], [lower.min(), upper.max()])
    assert (lower < quantile).all()
    assert (quantile < upper).all()
    assert legend_labels(ax) == ["90 %, new observation", "90 %, function", "median", "mean"]


def test_a_prediction_needs_no_targets() -> None:
    assert len(plot_prediction(plain_model(), draw_rows(1)[0], ax=new_axes()).get_lines()) == 1


def test_two_inputs_where_one_can_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs a model with 1 input\. Got a model with 2"):
        plot_prediction(two_input_model(), *draw_rows(2))


def test_a_map_has_the_values_of_its_cells_middles() -> None:
    ax = plot_map(two_input_model(), ((0.0, 2.0), (1.0, 2.0)), resolution=2, ax=new_axes())
    (image,) = ax.get_images()
    middles = [[0.5, 1.25], [1.5, 1.25], [0.5, 1.75], [1.5, 1.75]]
    expected = predicted_mean(two_input_model(), middles).reshape(2, 2)
    np.testing.assert_allclose(np.asarray(image.get_array()), expected)
    assert image.origin == "lower"
    assert (ax.get_xlim(), ax.get_ylim()) == ((0, 2), (1, 2))


def test_a_map_of_uncertainty_is_that_of_the_function() -> None:
    bounds = (0.0, 2.0), (1.0, 2.0)
    ax = plot_map(two_input_model(), bounds, quantity="std", resolution=1, ax=new_axes())
    _, std = two_input_model().predict([[1.0, 1.5]], return_std=True, include_noise=False)
    (image,) = ax.get_images()
    np.testing.assert_allclose(np.asarray(image.get_array()), [std])


def test_a_map_spans_its_rows() -> None:
    X, _ = draw_rows(2)
    ax = plot_map(two_input_model(), X=X, resolution=3, ax=new_axes())
    np.testing.assert_allclose([ax.get_xlim(), ax.get_ylim()], np.stack([X.min(0), X.max(0)]).T)
    (points,) = ax.collections
    np.testing.assert_array_equal(np.asarray(points.get_offsets()), X)


def test_one_input_where_two_can_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs a model with 2 inputs\. Got a model with 1"):
        plot_map(one_input_model(), ((0.0, 1.0), (0.0, 1.0)))


def test_a_map_without_rectangle_is_refused() -> None:
    with pytest.raises(ValueError, match="neither bounds nor X; give one of them"):
        plot_map(two_input_model())
    with pytest.raises(ValueError, match="x0 < x1"):
        plot_map(two_input_model(), ((1.0, 1.0), (0.0, 1.0)))
    with pytest.raises(ValueError, match="x0 < x1"):
        plot_map(two_input_model(), X=[[0.0, 1.0], [0.0, 2.0]])


def test_impossible_choices_are_refused_by_name() -> None:
    square = ((0.0, 1.0), (0.0, 1.0))
    with pytest.raises(ValueError, match=r"quantity must be one of .* Got 'median'"):
        unchecked(plot_map, regressor=two_input_model(), bounds=square, quantity="median")
    with pytest.raises(ValueError, match=r"resolution must be at least 1\. Got 0"):
        plot_map(two_input_model(), square, resolution=0)
