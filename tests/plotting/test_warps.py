from __future__ import annotations

import numpy as np
import pytest
from builders.figures import (
    draw_rows,
    matplotlib_left_alone,  # noqa: F401 (for every test here)
    new_axes,
    one_input_model,
    small_regressor,
    two_input_model,
)
from matplotlib.collections import PathCollection

from sswim.plotting import plot_warped_data, plot_warps


@pytest.mark.parametrize("member", [0, 1])
def test_warps_are_those_of_the_member_layer_by_layer(member: int) -> None:
    ax = plot_warps(one_input_model(), draw_rows(1)[0], member=member, ax=new_axes())
    *layers, identity = ax.get_lines()
    x = np.asarray(layers[0].get_xdata())
    for line, (mean, _) in zip(
        layers, one_input_model().warp(x[:, None], member=member), strict=True
    ):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), mean[:, 0])
    assert identity.get_linestyle() == "--"
    np.testing.assert_array_equal(identity.get_xdata(), identity.get_ydata())


def test_warps_of_several_inputs_are_points() -> None:
    X, _ = draw_rows(2)
    ax = plot_warps(two_input_model(), X, column=1, ax=new_axes())
    points, _ = ax.get_lines()
    ((mean, _),) = two_input_model().warp(X)
    expected = np.column_stack([X[:, 1], mean[:, 1]])
    np.testing.assert_allclose(np.asarray(points.get_xydata()), expected)
    assert ax.get_xlabel() == "input 2"


def test_warped_data_stand_where_the_last_warp_moves_them() -> None:
    X, y = draw_rows(1)
    ax = plot_warped_data(one_input_model(), X, y, ax=new_axes())
    (points,) = ax.collections
    assert isinstance(points, PathCollection)
    expected = np.column_stack([one_input_model().warp(X)[-1][0], y])
    np.testing.assert_allclose(np.asarray(points.get_offsets()), expected)
    np.testing.assert_array_equal(np.asarray(points.get_array()), X[:, 0])
    assert len(ax.figure.axes) == 2


def test_the_colour_bar_of_warped_data_can_be_left_out() -> None:
    ax = plot_warped_data(one_input_model(), *draw_rows(1), colour_bar=False, ax=new_axes())
    assert ax.figure.axes == [ax]


def test_two_inputs_where_one_can_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match=r"needs a model with 1 input\. Got a model with 2"):
        plot_warped_data(two_input_model(), *draw_rows(2))


def test_a_model_without_warps_has_none_to_draw() -> None:
    X, y = draw_rows(1)
    model = small_regressor(depth=0).fit(X, y)
    with pytest.raises(ValueError, match="fit one with depth=1"):
        plot_warps(model, X)
    with pytest.raises(ValueError, match="fit one with depth=1"):
        plot_warped_data(model, X, y)


@pytest.mark.parametrize("member", [-1, 2])
def test_a_member_that_is_not_there_is_refused(member: int) -> None:
    with pytest.raises(ValueError, match=f"one of the model's 2 members.*Got {member}"):
        plot_warps(one_input_model(), draw_rows(1)[0], member=member)
