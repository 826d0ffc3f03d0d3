"""Figures of calibration, of output warps and of the noise."""

from __future__ import annotations

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
    two_target_model,
)
from matplotlib.patches import Rectangle, StepPatch

from sswim.plotting import plot_calibration, plot_noise, plot_output_map, plot_pit


def test_calibration_counts_targets_within_intervals() -> None:
    X, y = draw_rows(1)
    ax = plot_calibration(one_input_model(), X, y, ax=new_axes())
    diagonal, model = ax.get_lines()
    np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())
    levels, observed = np.asarray(model.get_xdata()), np.asarray(model.get_ydata())
    np.testing.assert_allclose(levels[[0, -1]], [0.05, 0.95])
    for i in (2, 9, 16):
        lower, upper = one_input_model().predict_interval(X, float(levels[i]))
        assert observed[i] == np.mean((lower <= y) & (y <= upper))
    assert np.all(np.diff(observed) >= 0)


def test_the_pit_is_a_density_of_cumulative_probabilities() -> None:
    (X, y), bins = draw_rows(1, 40), 4
    ax = plot_pit(one_input_model(), X, y, bins=bins, ax=new_axes())
    (histogram,) = (patch for patch in ax.patches if isinstance(patch, StepPatch))
    heights, edges, _ = histogram.get_data()
    np.testing.assert_allclose(edges, np.linspace(0, 1, bins + 1))
    expected, _ = np.histogram(one_input_model().cdf(X, y), bins, (0, 1), density=True)
    np.testing.assert_allclose(heights, expected)
    (line,) = ax.get_lines()
    assert list(np.asarray(line.get_ydata())) == [1, 1]
    assert legend_labels(ax) == ["model", "95 % by chance", "exact"]
    # The band is what chance leaves in a bin.
    (band,) = (patch for patch in ax.patches if isinstance(patch, Rectangle))
    counts = np.random.default_rng(0).binomial(40, 0.25, 100_000)  # ten are expected
    low, high = 10 * band.get_y(), 10 * (band.get_y() + band.get_height())
    np.testing.assert_allclose([low, high], np.quantile(counts, [0.025, 0.975]))
    with pytest.raises(ValueError, match=r"bins must be at least 1\. Got -4"):
        plot_pit(one_input_model(), X, y, bins=-4)


def test_the_output_map_shows_the_output_warp_of_each_member() -> None:
    _, y = draw_rows(1)
    ax = plot_output_map(one_input_model(), y, ax=new_axes())
    *members, straight, ticks = ax.get_lines()
    assert len(members) == 2
    for member, line in enumerate(members):
        x = np.asarray(line.get_xdata())
        assert (x.min(), x.max()) == (y.min(), y.max())
        expected = one_input_model().warp_targets(x, member=member)
        np.testing.assert_allclose(np.asarray(line.get_ydata()), expected)
        alone, *_ = plot_output_map(one_input_model(), y, member=member, ax=new_axes()).get_lines()
        np.testing.assert_array_equal(alone.get_xydata(), line.get_xydata())
    x = np.asarray(straight.get_xdata())
    # Without an output warp the targets are only standardised.
    np.testing.assert_allclose(np.asarray(straight.get_ydata()), plain_model().warp_targets(x))
    np.testing.assert_array_equal(ticks.get_xdata(), y)
    assert legend_labels(ax) == ["output warp", "no warp", "targets"]
    # The ticks are at the bottom of the axes, whatever the limits, and do not stretch them.
    ax = plot_output_map(one_input_model(), 1000 + y, ax=new_axes())
    assert ax.get_ylim()[0] > 100
    assert ax.get_xlim()[0] > 900


def test_output_maps_that_cannot_be_drawn_are_refused() -> None:
    _, y = draw_rows(1)
    for model, targets, message in (
        (plain_model(), y, "fit one with output_warp='sinh-arcsinh'"),
        (two_target_model(), np.column_stack([y, -y]), r"a single target\. Got 2"),
        (two_target_model(), y, "must have 2 targets"),
        (one_input_model(), [1.0, float("nan")], "y contains NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            plot_output_map(model, targets)


def test_noise_is_a_curve_over_one_input_and_points_over_several() -> None:
    X, y = draw_rows(1)
    ax = plot_noise(one_input_model(), X, ax=new_axes())
    (line,) = ax.get_lines()
    x = np.asarray(line.get_xdata())
    assert np.all(np.diff(x) > 0)
    assert (x[0], x[-1]) == (X.min(), X.max())
    expected = one_input_model().predict_noise(x[:, None])
    np.testing.assert_allclose(np.asarray(line.get_ydata()), expected)
    assert np.ptp(expected) > 0
    assert ax.get_ylim()[0] == 0
    (line,) = plot_noise(small_regressor().fit(X, y), X, ax=new_axes()).get_lines()
    np.testing.assert_allclose(np.ptp(np.asarray(line.get_ydata())), 0, atol=1e-12)  # constant
    X, _ = draw_rows(2)  # over several inputs it is a point for each row
    ax = plot_noise(two_input_model(), X, column=1, ax=new_axes())
    (points,) = ax.get_lines()
    expected = np.column_stack([X[:, 1], two_input_model().predict_noise(X)])
    np.testing.assert_allclose(np.asarray(points.get_xydata()), expected)
    assert ax.get_xlabel() == "input 2"
