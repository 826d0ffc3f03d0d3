"""How every figure looks."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.legend import Legend

CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours that differ for the colour-blind as well (Okabe and Ito)."""

DEEP = "#003F63"
"""The first of them darkened, for a line that is seen on its own band."""

INK = "#404040"
POSITIONS = ListedColormap(colormaps["viridis"](np.linspace(0, 0.9, 256)), "positions")
"""For points coloured by where they lie: without the palest yellows, which white swallows."""


def axes(ax: Axes | None) -> Axes:
    """The axes to draw into, in the one style."""
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def legend(ax: Axes) -> Legend:
    """Names of what is drawn, without a frame."""
    # "best" is the default, but said aloud it does not warn of the time that many rows take it.
    return ax.legend(frameon=False, fontsize="small", loc="best")


def points(
    ax: Axes,
    x: Float64[np.ndarray, " N"],
    y: Float64[np.ndarray, " N"],
    *,
    label: str,
    color: str,
) -> None:
    """Rows, small and pale enough for many of them."""
    ax.plot(x, y, ls="", marker="o", ms=2, mew=0, color=color, alpha=0.6, label=label)


def png(figure: Figure, dpi: int = 150) -> bytes:
    """A figure as the content of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()
