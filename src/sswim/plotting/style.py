"""Colours and style of every figure."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64, Shaped
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter

CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Line colours, which colour-blind readers can tell apart too (Okabe and Ito)."""

DARK_BLUE = "#003F63"
"""A darker shade of the first colour, for a line on a band of that colour."""

INK = "#404040"
"""Dark grey, for rows and reference lines."""

INPUT_COLOURS = ListedColormap(colormaps["viridis"](np.linspace(0, 0.9, 256)), "inputs")
"""Colour map for points coloured by an input: viridis without yellows too pale for white paper."""


def axes(ax: Axes | None) -> Axes:
    """Return the axes in the common style; those of a new figure if none are given."""
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def add_legend(ax: Axes) -> Legend:
    """Add a legend without a frame."""
    # "best" is the default; given explicitly, it does not warn that many rows make it slow.
    return ax.legend(frameon=False, fontsize="small", loc="best")


def draw_points(
    ax: Axes,
    x: Float64[np.ndarray, " N"],
    y: Float64[np.ndarray, " N"],
    *,
    label: str,
    color: str,
) -> None:
    """Draw rows as points, small and pale enough for many of them."""
    ax.plot(x, y, ls="", marker="o", ms=2, mew=0, color=color, alpha=0.6, label=label)


def draw_rug(ax: Axes, rows: Shaped[np.ndarray, " n"]) -> None:
    """Draw a short line on the horizontal axis for every row."""
    bottom = ax.get_xaxis_transform()  # data along the axis, and the height of the axes across it
    ax.plot(rows, np.zeros(len(rows)), ls="", marker="|", ms=7, mew=0.6, color=INK, alpha=0.5,
            transform=bottom, clip_on=False)  # fmt: skip


def write_plainly(axis: Axis) -> None:
    """Write the numbers of a logarithmic axis as 0.02 and 30, not as powers of ten."""
    low, high = axis.get_view_interval()
    locator: Locator = MaxNLocator(6, steps=[1, 2, 5, 10])  # a few of a short range
    if high / low > 8:  # few enough that they do not touch
        locator = LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,))
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def png(figure: Figure, dpi: int = 150) -> bytes:
    """Return a figure as the content of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()
