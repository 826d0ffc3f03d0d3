"""Figures of what a model has learnt: relevance of columns, effects and local length-scales."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import PercentFormatter

from sswim.base.validation import UserError
from sswim.insight.effect import Effect
from sswim.insight.local_metric import LocalMetric
from sswim.insight.relevance import Relevance
from sswim.plotting import style

MAX_NAMES = 30
"""Largest number of columns or inputs with a line of their own."""

MAX_ELLIPSES = 70
"""Largest number of ellipses of local length-scales."""

_AVERAGE = "function, averaged over rows"


def plot_relevance(
    relevance: Relevance, *, max_bars: int = MAX_NAMES, ax: Axes | None = None
) -> Axes:
    """Plot the shares of columns as bars, the most relevant on top, with those of single members.

    Args:
        relevance: The result of ``SSWIMRegressor.relevance``.
        max_bars: Largest number of columns that are shown; the others are added up.
        ax: Axes to draw into; by default those of a new figure.
    """
    order = relevance.order
    shown, rest = order[:max_bars], order[max_bars:]
    names = [relevance.names[place] for place in shown]
    every = np.vstack((relevance.relevance, relevance.members))
    shares = every[:, shown]
    if rest:
        names.append(f"{len(rest)} others")
        shares = np.column_stack((shares, every[:, rest].sum(1)))

    ax = style.axes(ax)
    _make_room(ax, len(names))
    places = np.arange(len(names))
    ax.barh(places, shares[0], color=style.CYCLE[0], alpha=0.8, lw=0)
    weights = relevance.weights / relevance.weights.max()
    if (weights > 0).sum() > 1:
        tick: dict[str, Any] = {"ls": "", "marker": "|", "ms": 7, "mew": 1.2, "color": style.INK}
        for weight, member in zip(weights, shares[1:], strict=True):
            if member.any():  # fainter, the less it weighs
                ax.plot(member, places, **tick, alpha=float(np.clip(weight, 0.12, 0.8)))
        ax.plot([], [], **tick, label="single members")
        ax.legend(frameon=False, fontsize="small", loc="lower right")
    ax.set_yticks(places, names, fontsize="small" if len(names) > 15 else "medium")
    ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, None), xlabel="relevance")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.tick_params(axis="y", length=0)
    return ax


def _make_room(ax: Axes, n_names: int) -> None:
    """Make a figure that has no other axes tall enough for names below each other."""
    figure = ax.figure
    if isinstance(figure, Figure) and figure.axes == [ax]:
        figure.set_figheight(max(figure.get_figheight(), 0.22 * n_names + 1))


def plot_effect(effect: Effect, *, target: int = 0, ax: Axes | None = None) -> Axes:
    """Plot an effect with its bands.

    A number or time has a line, a category has points with bars, below which stands the share of
    rows of each level. A pair of numbers or times has a map, a number or time together with a
    category a line for each level, and two categories have a table in colours.

    Args:
        effect: The result of ``SSWIMRegressor.effect``.
        target: Number of the target, counted from 0.
        ax: Axes to draw into; by default those of a new figure.
    """
    curves = np.stack((effect.mean, effect.lower, effect.upper))
    n_axes = len(effect.grids)
    if effect.mean.ndim > n_axes:
        n_targets = curves.shape[-1]
        if not 0 <= target < n_targets:
            raise UserError(
                f"target must be one of the {n_targets} targets, counted from 0. Got {target}."
            )
        curves = curves[..., target]
    ax = style.axes(ax)
    categories = effect.kinds.count("category")
    if n_axes == 1 and categories:
        _draw_levels(ax, effect, curves)
    elif n_axes == 1:
        style.draw_band(
            ax, _positions(effect.grids[0]), *curves[1:], alpha=0.25, label=_band(effect)
        )
        ax.plot(_positions(effect.grids[0]), curves[0], color=style.DARK_BLUE, lw=1.4)
        _finish_lines(ax, effect, 0)
    elif categories == 1 and len(effect.grids[effect.kinds.index("category")]) <= len(style.CYCLE):
        _draw_lines(ax, effect, curves)
    else:
        _draw_map(ax, effect, curves[0])
    return ax


def _draw_levels(ax: Axes, effect: Effect, curves: Float64[np.ndarray, "3 G"]) -> None:
    """Draw a point with a bar for each level of a category."""
    [name], [grid], [rows] = effect.names, effect.grids, effect.rows
    mean, lower, upper = curves
    places = np.arange(len(grid))
    reach = np.stack((mean - lower, upper - mean))
    ax.errorbar(places, mean, reach, **style.BARS, ms=5, lw=1.4, label=_band(effect))
    is_long = max(len(str(level)) for level in grid) * len(grid) > 60
    between = ", " if is_long else "\n"
    names = [f"{level}{between}{np.mean(rows == level):.0%}" for level in grid]
    turned: dict[str, Any] = (
        {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if is_long else {}
    )
    ax.set_xticks(places, names, **turned)
    ax.set(xlim=(-0.5, len(grid) - 0.5), xlabel=f"{name}, share of rows", ylabel=_AVERAGE)
    style.add_legend(ax)


def _draw_lines(ax: Axes, effect: Effect, curves: Float64[np.ndarray, "3 G H"]) -> None:
    """Draw a line for each level of the column that is a category."""
    levels = effect.kinds.index("category")
    x = _positions(effect.grids[1 - levels])
    for number, level in enumerate(effect.grids[levels]):
        curve, low, high = np.take(curves, number, axis=1 + levels)
        style.draw_band(ax, x, low, high, color=style.CYCLE[number], alpha=0.2)
        ax.plot(x, curve, color=style.CYCLE[number], lw=1.4, label=str(level))
    legend = _finish_lines(ax, effect, 1 - levels)
    legend.set_title(f"{effect.names[levels]}, {_band(effect)}s")


def _draw_map(ax: Axes, effect: Effect, mean: Float64[np.ndarray, "G H"]) -> None:
    """Draw filled contours over numbers and times; over levels, cells of equal size."""
    first, second = effect.grids
    image: ScalarMappable
    if "category" in effect.kinds:
        image = ax.pcolormesh(np.arange(len(first)), np.arange(len(second)), mean.T)
        ax.set_xticks(np.arange(len(first)), _texts(first), rotation=45, ha="right")
        ax.set_yticks(np.arange(len(second)), _texts(second))
    else:
        x, y = _positions(first), _positions(second)
        image = ax.contourf(x, y, mean.T, 15)
        ax.contour(x, y, mean.T, 15, colors="white", linewidths=0.3)
        rows = [_positions(values) for values in effect.rows]
        ax.plot(*rows, ls="", marker="o", ms=2, mew=0.3, mec="black", mfc="white", alpha=0.6)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    ax.figure.colorbar(image, ax=ax, label=_AVERAGE)
    ax.set(xlabel=_name(effect, 0), ylabel=_name(effect, 1))


def _finish_lines(ax: Axes, effect: Effect, column: int) -> Legend:
    """Draw the rows and a legend, and name the axes; dates along the horizontal one are short."""
    x, rows = _positions(effect.grids[column]), _positions(effect.rows[column])
    style.draw_rug(ax, rows[(rows >= x.min()) & (rows <= x.max())])
    if x.dtype.kind == "M":
        locator = AutoDateLocator(maxticks=7)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.set(xlabel=_name(effect, column), ylabel=_AVERAGE)
    return style.add_legend(ax)


def _band(effect: Effect) -> str:
    return f"{effect.level:.0%} band"


def _positions(values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Return values as they are drawn: times of a day in hours."""
    return values / np.timedelta64(1, "h") if values.dtype.kind == "m" else values


def _name(effect: Effect, place: int) -> str:
    """Return the name of a column, with a unit for times of a day."""
    unit = ", hours" if effect.grids[place].dtype.kind == "m" else ""
    return f"{effect.names[place]}{unit}"


def _texts(values: Shaped[np.ndarray, " n"]) -> list[str]:
    return [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]


def plot_local_metric(
    metric: LocalMetric, *, max_inputs: int = MAX_NAMES, ax: Axes | None = None
) -> Axes:
    """Plot local length-scales: a curve for one input, ellipses for two, boxes for more.

    An ellipse is what the function sees as a circle: it is narrow across the direction in which the
    function may vary fast. A box is the range of the middle half of the rows, and its whiskers that
    of nine rows in ten.

    Args:
        metric: The result of ``SSWIMRegressor.local_metric``.
        max_inputs: Largest number of inputs that have a box: those with the shortest length-scales.
        ax: Axes to draw into; by default those of a new figure.
    """
    ax = style.axes(ax)
    n_inputs = len(metric.names)
    if n_inputs == 1:
        order = np.argsort(metric.inputs[:, 0])
        x, scale = metric.inputs[order, 0], metric.length_scale[order, 0]
        ax.plot(x, scale, color=style.DARK_BLUE, lw=1.4)
        style.draw_rug(ax, x)
        ax.set(xlabel=metric.names[0], ylabel="local length-scale", yscale="log")
        style.write_plainly(ax.yaxis)
    elif n_inputs == 2:
        _draw_ellipses(ax, metric)
    else:
        _draw_boxes(ax, metric, max_inputs)
    return ax


def _draw_ellipses(ax: Axes, metric: LocalMetric) -> None:
    """Draw the points at a fixed distance from some rows, as the warps measure it."""
    spread = np.ptp(metric.inputs, axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    x = metric.inputs / spread  # in units of the range, so that both axes compare
    chosen, gap = _spaced_rows(x, MAX_ELLIPSES)
    values, vectors = np.linalg.eigh(metric.metric[chosen] * spread[:, None] * spread)
    radii = 1 / np.sqrt(np.maximum(values, 1e-12))  # half axes of length one
    scale = np.sqrt(radii.prod(1))  # radius of a circle of the same area
    unit = 0.55 * gap / np.quantile(radii, 0.75)  # most ellipses are then apart
    drawn = np.minimum(unit * radii, 1.5 * gap)
    angles = np.linspace(0, 2 * np.pi, 60)
    circle = np.stack((np.cos(angles), np.sin(angles)))
    colours = ax.scatter(
        metric.inputs[chosen, 0], metric.inputs[chosen, 1], 3, scale, cmap="viridis", norm="log"
    )
    shades = colours.to_rgba(scale)
    for row, axis, half, shade in zip(x[chosen], vectors, drawn, shades, strict=True):
        outline = (row[:, None] + axis @ (half[:, None] * circle)) * spread[:, None]
        ax.fill(*outline, facecolor=(*shade[:3], 0.25), edgecolor=shade, lw=0.8)
    bar = ax.figure.colorbar(colours, ax=ax, label="local length-scale, in units of the range")
    style.write_plainly(bar.ax.yaxis)
    ax.set(xlabel=metric.names[0], ylabel=metric.names[1])


def _spaced_rows(x: Float64[np.ndarray, "N D"], most: int) -> tuple[Int64[np.ndarray, " n"], float]:
    """Return rows far from each other, each the farthest from those before, and their distance."""
    chosen = [0]
    distance = np.linalg.norm(x - x[0], axis=1)
    while len(chosen) < most and distance.max() > 0:
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(x - x[chosen[-1]], axis=1))
    if len(chosen) == 1:
        return np.array(chosen), 0.1
    points = x[chosen]
    between = np.linalg.norm(points[:, None] - points, axis=-1)
    np.fill_diagonal(between, np.inf)
    return np.array(chosen), float(np.median(between.min(1)))


def _draw_boxes(ax: Axes, metric: LocalMetric, max_inputs: int) -> None:
    """Draw a box for the local length-scales of every input, in units of its spread."""
    spread = metric.inputs.std(0)
    varies = np.flatnonzero(spread > 0)
    scales = metric.length_scale[:, varies] / spread[varies]
    scales = np.where(np.isfinite(scales), scales, np.nan)
    known = ~np.isnan(scales).all(0)  # the function depends on the input somewhere
    varies, scales = varies[known], scales[:, known]
    order = np.argsort(np.nanmedian(scales, axis=0), kind="stable")[:max_inputs]
    _make_room(ax, len(order))
    boxes = [scales[~np.isnan(scales[:, place]), place] for place in order]
    line: dict[str, Any] = {"color": style.INK, "linewidth": 0.8}
    ax.boxplot(
        boxes,
        orientation="horizontal",
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        widths=0.65,
        boxprops={"facecolor": style.CYCLE[5], "edgecolor": style.INK, "linewidth": 0.6},
        medianprops={"color": style.DARK_BLUE, "linewidth": 1.4},
        whiskerprops=line,
        capprops=line,
    )
    names = [metric.names[varies[place]] for place in order]
    ax.set_yticks(np.arange(1, len(order) + 1), names)
    ax.tick_params(axis="y", length=0, labelsize="small" if len(order) > 15 else "medium")
    ax.set(xscale="log", ylim=(len(order) + 0.6, 0.4))
    ax.set_xlabel("local length-scale, in units of the input's spread")
    style.write_plainly(ax.xaxis)
