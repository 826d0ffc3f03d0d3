"""Figures of what a model has learnt: relevance of columns, effects and local length-scales."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Shaped
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from sswim.base.errors import UserError
from sswim.insight.effect import Effect
from sswim.insight.local_metric import LocalMetric
from sswim.insight.relevance import Relevance
from sswim.plotting.style import CYCLE, DARK_BLUE, INK, axes

MAX_BARS = 30
"""Largest number of columns with a row of their own; the others are added up."""

MAX_ELLIPSES = 150
"""Largest number of ellipses of local length-scales."""


def plot_relevance(
    relevance: Relevance, *, max_bars: int = MAX_BARS, ax: Axes | None = None
) -> Axes:
    """Plot the shares of columns as bars, the most relevant on top, and those of single members.

    Args:
        relevance: The result of ``SSWIMRegressor.relevance``.
        max_bars: Largest number of columns shown.
        ax: Axes to draw into; by default those of a new figure.
    """
    order = relevance.order
    shown, rest = order[:max_bars], order[max_bars:]
    names = [relevance.names[place] for place in shown]
    shares = relevance.relevance[shown]
    members = relevance.members[relevance.members.sum(1) > 0][:, shown]
    if rest:
        names.append(f"{len(rest)} others")
        shares = np.append(shares, relevance.relevance[rest].sum())
        others = relevance.members[relevance.members.sum(1) > 0][:, rest].sum(1)
        members = np.column_stack((members, others))

    ax = axes(ax)
    _make_room(ax, len(names))
    places = np.arange(len(names))
    ax.barh(places, shares, color=CYCLE[0], alpha=0.8, lw=0)
    if len(members) > 1:
        ax.plot(members.T, places, ls="", marker="|", ms=6, mew=1, color=INK, alpha=0.6)
        ax.plot([], [], ls="", marker="|", ms=6, mew=1, color=INK, label="single members")
        ax.legend(frameon=False, fontsize="small", loc="lower right")
    ax.set_yticks(places, names, fontsize="small" if len(names) > 15 else "medium")
    ax.set(ylim=(len(names) - 0.4, -0.6), xlim=(0, None), xlabel="relevance")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.tick_params(axis="y", length=0)
    return ax


def plot_effect(effect: Effect, *, target: int = 0, ax: Axes | None = None) -> Axes:
    """Plot an effect: a line with its band, points with bars for levels, a map for a pair.

    Args:
        effect: The result of ``SSWIMRegressor.effect``.
        target: Number of the target, counted from 0.
        ax: Axes to draw into; by default those of a new figure.
    """
    mean, lower, upper = (
        _of_target(values, len(effect.grids), target)
        for values in (effect.mean, effect.lower, effect.upper)
    )
    ax = axes(ax)
    if len(effect.grids) == 2:
        _draw_pair(ax, effect, mean)
        return ax
    [grid], [kind], [rows] = effect.grids, effect.kinds, effect.rows
    label = f"{effect.level:.0%} band of the averaged function"
    if kind == "category":
        places = np.arange(len(grid))
        reach = np.stack((mean - lower, upper - mean))
        ax.errorbar(
            places, mean, reach, ls="", marker="o", ms=5, capsize=3, color=CYCLE[0], label=label
        )
        counts = [int((rows == level).sum()) for level in grid]
        names = [
            f"{level}\n{count / len(rows):.0%}" for level, count in zip(grid, counts, strict=True)
        ]
        ax.set_xticks(places, names)
        ax.set_xlim(-0.5, len(grid) - 0.5)
    else:
        x = _positions(grid)
        ax.fill_between(x, lower, upper, color=CYCLE[0], alpha=0.25, lw=0, label=label)
        ax.plot(x, mean, color=DARK_BLUE, lw=1.4)
        _draw_rug(ax, _positions(rows), x)
    ax.set(xlabel=effect.names[0], ylabel="target, averaged over rows")
    ax.legend(frameon=False, fontsize="small", loc="best")
    return ax


def plot_local_metric(
    metric: LocalMetric, *, max_inputs: int = MAX_BARS, ax: Axes | None = None
) -> Axes:
    """Plot local length-scales: a curve for one input, ellipses for two, boxes for more.

    Args:
        metric: The result of ``SSWIMRegressor.local_metric``.
        max_inputs: Largest number of inputs that have a box; those with the shortest length-scales
            are shown.
        ax: Axes to draw into; by default those of a new figure.
    """
    ax = axes(ax)
    n_inputs = len(metric.names)
    if n_inputs == 1:
        order = np.argsort(metric.inputs[:, 0])
        x, scale = metric.inputs[order, 0], metric.length_scale[order, 0]
        ax.plot(x, scale, color=DARK_BLUE, lw=1.4)
        _draw_rug(ax, x, x)
        ax.set(xlabel=metric.names[0], ylabel="local length-scale", yscale="log")
    elif n_inputs == 2:
        _draw_ellipses(ax, metric)
    else:
        _draw_boxes(ax, metric, max_inputs)
    return ax


def _draw_pair(ax: Axes, effect: Effect, mean: Float64[np.ndarray, "G H"]) -> None:
    """Draw the effect of a pair as a map; levels have cells of equal size."""
    first, second = effect.grids
    image: ScalarMappable
    if "category" in effect.kinds:
        image = ax.pcolormesh(np.arange(len(first)), np.arange(len(second)), mean.T, cmap="viridis")
        ax.set_xticks(np.arange(len(first)), _texts(first))
        ax.set_yticks(np.arange(len(second)), _texts(second))
    else:
        image = ax.contourf(_positions(first), _positions(second), mean.T, 15, cmap="viridis")
        x, y = map(_positions, effect.rows)
        ax.plot(x, y, ls="", marker="o", ms=1.5, mew=0, color="white", alpha=0.7)
        ax.set(xlim=(first[0], first[-1]), ylim=(second[0], second[-1]))
    ax.figure.colorbar(image, ax=ax, label="target, averaged over rows")
    ax.set(xlabel=effect.names[0], ylabel=effect.names[1])


def _draw_rug(ax: Axes, rows: Shaped[np.ndarray, " n"], within: Shaped[np.ndarray, " G"]) -> None:
    """Draw a short line for every row at the bottom, within the range of a curve."""
    seen = rows[(rows >= within.min()) & (rows <= within.max())]
    ax.plot(seen, np.full(len(seen), 0.0), ls="", marker="|", ms=7, mew=0.6, color=INK, alpha=0.5,
            transform=ax.get_xaxis_transform(), clip_on=False)  # fmt: skip


def _draw_ellipses(ax: Axes, metric: LocalMetric) -> None:
    """Draw the points at a distance of a part of one length-scale from rows, as ellipses."""
    x, matrices = metric.inputs, metric.metric
    chosen = np.unique(np.linspace(0, len(x) - 1, min(len(x), MAX_ELLIPSES)).round().astype(int))
    spread = np.ptp(x, axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    scaled = matrices * spread[:, None] * spread  # in units of the range, so that axes compare
    values, vectors = np.linalg.eigh(scaled[chosen])
    radii = 1 / np.sqrt(np.maximum(values, 1e-12))
    unit = 0.05 / np.median(radii)  # so that most ellipses are apart
    scale = np.exp(np.log(np.maximum(radii, 1e-12)).mean(1))  # of one length in all directions
    colours = ax.scatter(*x[chosen].T, c=scale, s=0, cmap="viridis_r", norm="log")
    for place, radius, axis in zip(chosen, radii, vectors, strict=True):
        angles = np.linspace(0, 2 * np.pi, 60)
        circle = axis @ (
            np.minimum(unit * radius, 0.25)[:, None] * np.stack((np.cos(angles), np.sin(angles)))
        )
        outline = x[place][:, None] + spread[:, None] * circle
        ax.plot(*outline, lw=0.9, color=colours.to_rgba(float(np.exp(np.log(radius).mean()))))
    ax.figure.colorbar(colours, ax=ax, label="local length-scale, in units of the range")
    ax.set(xlabel=metric.names[0], ylabel=metric.names[1])


def _draw_boxes(ax: Axes, metric: LocalMetric, max_inputs: int) -> None:
    """Draw a box for the local length-scales of every input, in units of its spread."""
    spread = metric.inputs.std(0)
    varies = spread > 0
    scales = metric.length_scale[:, varies] / spread[varies]
    names = [name for name, keep in zip(metric.names, varies, strict=True) if keep]
    medians = np.median(scales, axis=0)
    order = np.argsort(medians, kind="stable")[:max_inputs]
    finite = [scales[np.isfinite(scales[:, place]), place] for place in order]
    _make_room(ax, len(order))
    ax.boxplot(
        finite,
        orientation="horizontal",
        whis=(5, 95),
        showfliers=False,
        patch_artist=True,
        widths=0.65,
        boxprops={"facecolor": CYCLE[5], "edgecolor": INK, "linewidth": 0.7},
        medianprops={"color": DARK_BLUE, "linewidth": 1.4},
        whiskerprops={"color": INK, "linewidth": 0.7},
        capprops={"color": INK, "linewidth": 0.7},
    )
    ax.set_yticks(np.arange(1, len(order) + 1), [names[place] for place in order])
    ax.tick_params(axis="y", length=0, labelsize="small" if len(order) > 15 else "medium")
    ax.set(xscale="log", ylim=(len(order) + 0.6, 0.4), xlabel="local length-scale, in spreads")


def _make_room(ax: Axes, n_names: int) -> None:
    """Make a figure that has no other axes tall enough for names below each other."""
    figure = ax.figure
    if isinstance(figure, Figure) and figure.axes == [ax]:
        figure.set_figheight(max(figure.get_figheight(), 0.22 * n_names + 1))


def _of_target(
    values: Float64[np.ndarray, "*shape"], n_axes: int, target: int
) -> Float64[np.ndarray, "*grids"]:
    """Return the values of one target."""
    if values.ndim == n_axes:
        return values
    if not 0 <= target < values.shape[-1]:
        raise UserError(
            f"target must be one of the {values.shape[-1]} targets, counted from 0. Got {target}."
        )
    return values[..., target]


def _positions(values: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Return values as they are drawn: times of a day in hours."""
    return values / np.timedelta64(1, "h") if values.dtype.kind == "m" else values


def _texts(values: Shaped[np.ndarray, " n"]) -> list[str]:
    return [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]
