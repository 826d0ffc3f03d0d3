"""The figure of training."""

from __future__ import annotations

import numpy as np
from builders.figures import (
    matplotlib_left_alone,  # noqa: F401 (for every test here)
    new_axes,
    one_input_model,
)

from sswim.plotting import plot_history


def test_history_has_a_line_for_each_member() -> None:
    ax = plot_history(one_input_model(), ax=new_axes())
    for line, values in zip(ax.get_lines(), one_input_model().history_, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), values)
    assert ax.get_legend() is not None
