"""Axes and pictures that all figures share."""

from __future__ import annotations

import io

from builders.figures import (
    matplotlib_left_alone,  # noqa: F401 (for every test)
    new_axes,
)
from matplotlib.figure import Figure
from PIL import Image

from sswim.plotting import add_legend, axes, png


def test_axes_are_open_at_the_top_and_at_the_right() -> None:
    ax = new_axes()
    assert axes(ax) is ax
    assert {name: spine.get_visible() for name, spine in ax.spines.items()} == {
        "left": True,
        "bottom": True,
        "top": False,
        "right": False,
    }


def test_a_legend_has_no_frame() -> None:
    ax = new_axes()
    ax.plot([1, 2], label="line")
    legend = add_legend(ax)
    assert not legend.get_frame_on()
    assert [text.get_text() for text in legend.get_texts()] == ["line"]


def test_a_figure_becomes_a_picture_of_its_size() -> None:
    figure = Figure(figsize=(3, 2))
    assert Image.open(io.BytesIO(png(figure, dpi=50))).size == (150, 100)
