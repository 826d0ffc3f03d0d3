"""A function of two inputs that varies in one corner only: its warp, and its pseudo-points.

The model is the published one with one warp, whose pseudo-points start uniformly. How much they
concentrate where the function varies depends on the settings p and t, which were chosen by hand
for this function. Twice the published number of steps lets the points finish moving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
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
from torch import Tensor

from sswim.plotting import CYCLE, INK, axes
from sswim_lab.bench.results import write_rows
from sswim_lab.paper.experiment import Request
from sswim_lab.paper.figures.curves import require_defaults, write_figure
from sswim_lab.peers.published_sswim import FittedPublished, PublishedSSWIM

NAME = "figure-gramacy"
LOW, HIGH = -2.0, 6.0
"""Range of both inputs."""
NOISE = 0.02
N_ROWS, QUICK_ROWS = 600, 100
REPEATS = 5
METHOD = PublishedSSWIM(
    1,
    n_components=256,
    n_pseudo=100,
    kernel="rbf",  # the function is smooth
    warp_spread=0.1,
    top_spread=0.1,
    steps=300,
)
QUICK_METHOD = replace(METHOD, n_components=32, n_pseudo=20, steps=5)
NEAR = 2.5
"""Distance from the origin beyond which the function is within 0.005 of zero."""
RESOLUTION = 50
"""Number of positions along each side of a surface."""


@dataclass(frozen=True)
class PointConcentration:
    """Concentration of the pseudo-points of a repeat where the function varies."""

    repeat: int
    when: str
    """Either "before" or "after" training."""
    share_near: float
    """Fraction of the points nearer to the origin than ``NEAR``, where the function varies."""
    share_mirrored: float
    """Fraction of the points as near to the opposite place, where the function is flat."""
    distance: float
    """Mean distance from the origin."""
    spacing: float
    """Median distance from a point to the nearest other one of the same function (g or h)."""
    rmse: float
    """Root mean square error of the prediction, compared with the function without noise."""


@dataclass(frozen=True)
class BeforeAndAfter:
    """A model before and after training, with the same random start."""

    before: FittedPublished
    after: FittedPublished

    def concentrations(self, repeat: int) -> list[PointConcentration]:
        """Return the concentration of its pseudo-points before and after training."""
        return [
            PointConcentration(
                repeat, when, *measure_concentration(fitted.pseudo_inputs()), function_rmse(fitted)
            )
            for when, fitted in (("before", self.before), ("after", self.after))
        ]

    def points(self) -> list[PseudoPoint]:
        """Return its pseudo-points."""
        pairs = zip(self.before.pseudo_inputs(), self.after.pseudo_inputs(), strict=True)
        return [
            PseudoPoint(function, *before, *after)
            for function, (befores, afters) in zip("gh", pairs, strict=True)
            for before, after in zip(befores.tolist(), afters.tolist(), strict=True)
        ]


def run(request: Request) -> list[Path]:
    """Fit and measure all repeats, draw the first and return the paths.

    This takes a minute, and is repeated in every run.
    """
    require_defaults(request, NAME)
    rows = [
        draw_rows(QUICK_ROWS if request.quick else N_ROWS, repeat)
        for repeat in range(request.repeats or (1 if request.quick else REPEATS))
    ]
    fits = [fit(request, *each, repeat) for repeat, each in enumerate(rows)]
    concentrations = [
        each for repeat, fitted in enumerate(fits) for each in fitted.concentrations(repeat)
    ]
    for when in ("before", "after"):
        measured = [each for each in concentrations if each.when == when]
        near, flat = (
            fmean(each.share_near for each in measured),
            fmean(each.share_mirrored for each in measured),
        )
        request.notify(
            f"{when.capitalize()} training {100 * near:.0f} % of the pseudo-points are where the "
            f"function varies, and {100 * flat:.0f} % in an equally large region where it is flat."
        )
    cells, points = surface(fits[0].after), fits[0].points()
    request.out.mkdir(parents=True, exist_ok=True)
    paths = [request.out / f"{NAME}{suffix}.csv" for suffix in ("", "-points", "-surface")]
    write_rows(paths[0], concentrations, PointConcentration)
    write_rows(paths[1], points, PseudoPoint)
    write_rows(paths[2], cells, Cell)
    figure = eight_panels(*rows[0], cells, points, NEAR)
    return [*paths, *write_figure(figure, request.out, NAME)]


def gramacy_surface(x: Float64[Tensor, "*N 2"]) -> Float64[Tensor, "*N"]:
    """Return x₁ exp(−x₁² − x₂²): on [−2, 6]² a hill beside a valley in one corner, else flat.

    It is the example of Gramacy's treed GPs.
    """
    return x[..., 0] * (-x.square().sum(-1)).exp()


def draw_rows(n: int, seed: int) -> tuple[Float64[np.ndarray, "n 2"], Float64[np.ndarray, " n"]]:
    """Draw noisy rows of the function, uniformly over the domain."""
    generator = torch.Generator().manual_seed(seed)
    x = LOW + (HIGH - LOW) * torch.rand(n, 2, generator=generator, dtype=torch.float64)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    return x.numpy(), (gramacy_surface(x) + NOISE * noise).numpy()


def fit(
    request: Request, X: Float64[np.ndarray, "N 2"], y: Float64[np.ndarray, " N"], seed: int
) -> BeforeAndAfter:
    """Fit a model with and without training, from the same start."""
    method = QUICK_METHOD if request.quick else METHOD
    before = replace(method, steps=0).fit(X, y, seed, request.device)
    return BeforeAndAfter(before, method.fit(X, y, seed, request.device))


def measure_concentration(
    functions: Sequence[Float64[np.ndarray, "K 2"]],
) -> tuple[float, float, float, float]:
    """Return the measures of a ``PointConcentration``.

    Args:
        functions: The points of each function.

    Returns:
        Share near, share mirrored, distance and spacing.
    """
    every = np.concatenate(functions)
    distances, mirrored = np.hypot(*every.T), np.hypot(*(LOW + HIGH - every).T)
    spacings = []
    for points in functions:
        apart = np.hypot(*(points[:, None] - points).transpose(2, 0, 1))
        np.fill_diagonal(apart, np.inf)
        spacings.append(apart.min(axis=0))
    return (
        float(np.mean(distances < NEAR)),
        float(np.mean(mirrored < NEAR)),
        float(np.mean(distances)),
        float(np.median(spacings)),
    )


def surface(fitted: FittedPublished) -> list[Cell]:
    """Return the truth, the prediction and the warp on a grid over the domain."""
    x, truth = _grid()
    warped, variance = fitted.warp(x)
    columns = (*x.T, truth, fitted.predict(x).mean, *warped.T, variance.mean(1))
    return [Cell(*cell) for cell in np.column_stack(columns).tolist()]


def function_rmse(fitted: FittedPublished) -> float:
    """Return the root mean square error of the prediction over the domain."""
    x, truth = _grid()
    return float(np.sqrt(np.mean(np.square(fitted.predict(x).mean - truth))))


def _grid() -> tuple[Float64[np.ndarray, "P 2"], Float64[np.ndarray, " P"]]:
    """Return grid positions, x₁ varying fastest, and the function there."""
    along = torch.linspace(LOW, HIGH, RESOLUTION, dtype=torch.float64)
    x = torch.stack(torch.meshgrid(along, along, indexing="xy"), dim=-1).reshape(-1, 2)
    return x.numpy(), gramacy_surface(x).numpy()


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
