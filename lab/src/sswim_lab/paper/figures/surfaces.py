"""Panels of a function of two inputs, its warp and the warp's pseudo-points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Circle
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from sswim.plotting import CYCLE, INK, axes

TARGETS = "RdBu_r"
"""Colour map of the function, white where it is zero."""
WARPED, VARIANCE = "viridis", "magma"
"""Colour maps of warped inputs and of the warp's variance."""


@dataclass(frozen=True)
class Cell:
    """A position of a square grid, x₁ varying fastest; warped inputs are in input units."""

    x1: float
    x2: float
    truth: float
    prediction: float
    warped_x1: float
    warped_x2: float
    variance: float
    """Variance of the warp, the mean over both inputs."""


@dataclass(frozen=True)
class PseudoPoint:
    """A pseudo-point before and after training."""

    function: str
    """Function of the warp g(x) ⊙ x + h(x): g or h."""
    x1_before: float
    x2_before: float
    x1_after: float
    x2_after: float


def eight_panels(
    X: Float64[np.ndarray, "N 2"],
    y: Float64[np.ndarray, " N"],
    cells: Sequence[Cell],
    points: Sequence[PseudoPoint],
    near: float,
) -> Figure:
    """Draw the paper's seven panels, and the function of the warped inputs.

    Args:
        X: Training inputs.
        y: Training targets.
        cells: Grid of the surfaces.
        points: Pseudo-points.
        near: Radius of a circle around the origin.
    """
    figure = Figure(figsize=(11, 6.4), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    (data, truth, prediction, moves), (first, second, variance, grid) = figure.subplots(2, 4)
    highest = max(abs(cell.truth) for cell in cells)
    target_norm = Normalize(-highest, highest)
    drawn = data.scatter(
        *X.T, s=9, c=y, cmap=TARGETS, norm=target_norm, edgecolors=INK, linewidths=0.2
    )
    _draw_surface(truth, cells, "truth", TARGETS, target_norm)
    _draw_surface(prediction, cells, "prediction", TARGETS, target_norm)
    _add_colour_bar(figure, drawn, [data, truth, prediction], "target")

    _draw_moves(moves, points, near)
    beyond = 0.25 * (cells[-1].x1 - cells[0].x1)  # points further away have no effect
    around = (cells[0].x1 - beyond, cells[-1].x1 + beyond)
    moves.set(xlim=around, ylim=around)

    warped = [value for cell in cells for value in (cell.warped_x1, cell.warped_x2)]
    warp_norm = Normalize(min(warped), max(warped))
    levels = list(MaxNLocator(12).tick_values(min(warped), max(warped)))
    _draw_surface(first, cells, "warped_x1", WARPED, warp_norm, levels)
    image = _draw_surface(second, cells, "warped_x2", WARPED, warp_norm, levels)
    _add_colour_bar(figure, image, [first, second], "warped input")
    image = _draw_surface(variance, cells, "variance", VARIANCE, LogNorm())
    bar = _add_colour_bar(figure, image, [variance], "variance, mean of both inputs")
    bar.set_ticks(LogLocator(subs=(1, 3)), minor=False)
    bar.ax.xaxis.set_major_formatter("{x:g}")
    bar.ax.xaxis.set_minor_formatter(NullFormatter())  # minor labels would overlap

    _draw_warped_grid(grid, cells, target_norm)
    titles = {
        data: "(a) training data",
        truth: "(b) function",
        prediction: "(c) prediction",
        moves: "(d) pseudo-points",
        first: "(e) warped $x_1$",
        second: "(f) warped $x_2$",
        variance: "(g) variance of the warp",
        grid: "(h) function of warped inputs",
    }
    for ax, title in titles.items():
        ax.set_title(title, loc="left", fontsize="medium")
        ax.tick_params(labelsize="small")
        ax.set_aspect("equal")
    low, high = cells[0].x1, cells[-1].x1
    ticks = np.arange(low, high + 1, 2)
    for ax in (data, truth, prediction, first, second, variance):
        ax.set(xlim=(low, high), ylim=(low, high), xlabel="$x_1$", ylabel="$x_2$")
        ax.set(xticks=ticks, yticks=ticks)
    return figure


def _draw_surface(
    ax: Axes,
    cells: Sequence[Cell],
    quantity: str,
    colours: str,
    norm: Normalize,
    levels: Sequence[float] = (),
) -> AxesImage:
    """Draw a quantity in colours, with contour lines at some levels."""
    low, high = cells[0].x1, cells[-1].x1
    values = _as_square(cells, quantity)
    half = 0.5 * (high - low) / (len(values) - 1)  # positions are the middles of pixels
    ends = (low - half, high + half)
    image = ax.imshow(
        values,
        extent=(*ends, *ends),
        origin="lower",
        cmap=colours,
        norm=norm,
        interpolation="bilinear",
    )
    if levels:
        along = np.linspace(low, high, len(values))
        ax.contour(
            along, along, values, levels=levels, colors="white", linewidths=0.5, linestyles="solid"
        )
    return image


def _draw_moves(ax: Axes, points: Sequence[PseudoPoint], near: float) -> None:
    """Draw pseudo-points before and after training, joined by lines."""
    axes(ax)
    ax.add_patch(Circle((0, 0), near, fill=False, ec=INK, lw=0.8, ls="--"))
    befores = np.array([(point.x1_before, point.x2_before) for point in points])
    afters = np.array([(point.x1_after, point.x2_after) for point in points])
    ax.plot(*np.stack([befores, afters]).transpose(2, 0, 1), color=INK, lw=0.4, alpha=0.25)
    ax.plot(*befores.T, ls="", marker="o", ms=2.5, mfc="none", mec=INK, mew=0.5, label="before")
    functions = np.array([point.function for point in points])
    for colour, function in zip(CYCLE, ("g", "h"), strict=False):
        moved = afters[functions == function]
        label = f"after, of ${function}$"
        ax.plot(*moved.T, ls="", marker="o", ms=4, mew=0, color=colour, alpha=0.7, label=label)
    ax.set(xlabel="$x_1$", ylabel="$x_2$")
    names = ax.legend(
        frameon=False,
        fontsize="small",
        ncols=3,
        loc="upper right",
        bbox_to_anchor=(1.05, -0.22),
        handletextpad=0.1,
        columnspacing=0.8,
    )
    names.set_in_layout(False)  # it is drawn where other columns have their colour bars


def _draw_warped_grid(ax: Axes, cells: Sequence[Cell], norm: Normalize) -> None:
    """Draw the grid after the warp, in the colours of the function."""
    axes(ax)
    across, up = _as_square(cells, "warped_x1"), _as_square(cells, "warped_x2")
    ax.pcolormesh(
        across,
        up,
        _as_square(cells, "truth"),
        cmap=TARGETS,
        norm=norm,
        shading="gouraud",
        rasterized=True,
    )
    step = max(1, len(across) // 16)
    for rows, columns in ((across, up), (across.T, up.T)):
        ax.plot(rows[::step].T, columns[::step].T, color=INK, lw=0.4, alpha=0.6)
    ax.set(xlabel="warped $x_1$", ylabel="warped $x_2$")


def _add_colour_bar(
    figure: Figure, drawn: ScalarMappable, panels: list[Axes], label: str
) -> Colorbar:
    bar = figure.colorbar(
        drawn, ax=panels, location="bottom", label=label, shrink=0.9 / len(panels) ** 0.5
    )
    bar.ax.tick_params(labelsize="small")
    return bar


def _as_square(cells: Sequence[Cell], quantity: str) -> Float64[np.ndarray, "R R"]:
    size = round(len(cells) ** 0.5)
    return np.array([getattr(cell, quantity) for cell in cells]).reshape(size, size)
