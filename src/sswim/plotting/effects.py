"""Figures of effects: the function averaged over rows, for each value of one or two columns."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Shaped
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

from sswim.base.validation import UserError
from sswim.insight.effect import Effect
from sswim.plotting.style import CYCLE, DARK_BLUE, add_legend, axes, draw_rug

_LABEL = "function, averaged over rows"


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
    n_axes = len(effect.grids)
    curves = [
        _of_target(values, n_axes, target) for values in (effect.mean, effect.lower, effect.upper)
    ]
    ax = axes(ax)
    categories = effect.kinds.count("category")
    if n_axes == 1:
        draw = _draw_levels if categories else _draw_line
        draw(ax, effect, *curves)
    elif categories == 1 and len(effect.grids[effect.kinds.index("category")]) <= len(CYCLE):
        _draw_lines(ax, effect, *curves)
    else:
        _draw_map(ax, effect, curves[0])
    return ax


def _draw_line(
    ax: Axes,
    effect: Effect,
    mean: Float64[np.ndarray, " G"],
    lower: Float64[np.ndarray, " G"],
    upper: Float64[np.ndarray, " G"],
) -> None:
    x, rows = _positions(effect.grids[0]), _positions(effect.rows[0])
    ax.fill_between(x, lower, upper, color=CYCLE[0], alpha=0.25, lw=0, label=_band(effect))
    ax.plot(x, mean, color=DARK_BLUE, lw=1.4)
    draw_rug(ax, rows[(rows >= x.min()) & (rows <= x.max())])
    _format_times(ax, x)
    ax.set(xlabel=_name(effect, 0), ylabel=_LABEL)
    add_legend(ax)


def _draw_levels(
    ax: Axes,
    effect: Effect,
    mean: Float64[np.ndarray, " G"],
    lower: Float64[np.ndarray, " G"],
    upper: Float64[np.ndarray, " G"],
) -> None:
    grid, rows = effect.grids[0], effect.rows[0]
    places = np.arange(len(grid))
    ax.errorbar(
        places,
        mean,
        np.stack((mean - lower, upper - mean)),
        ls="",
        marker="o",
        ms=5,
        capsize=3,
        color=CYCLE[0],
        lw=1.4,
        label=_band(effect),
    )
    shares = [np.mean(rows == level) for level in grid]
    names = [f"{level}\n{share:.0%}" for level, share in zip(grid, shares, strict=True)]
    long = max(len(str(level)) for level in grid) * len(grid) > 60
    if long:
        names = [each.replace("\n", ", ") for each in names]
        ax.set_xticks(places, names, rotation=45, ha="right", rotation_mode="anchor")
    else:
        ax.set_xticks(places, names)
    ax.set(xlim=(-0.5, len(grid) - 0.5), xlabel=f"{effect.names[0]}, share of rows", ylabel=_LABEL)
    add_legend(ax)


def _draw_lines(
    ax: Axes,
    effect: Effect,
    mean: Float64[np.ndarray, "G H"],
    lower: Float64[np.ndarray, "G H"],
    upper: Float64[np.ndarray, "G H"],
) -> None:
    """Draw a line for each level of the column that is a category."""
    levels = effect.kinds.index("category")
    other = 1 - levels
    x, rows = _positions(effect.grids[other]), _positions(effect.rows[other])
    for number, level in enumerate(effect.grids[levels]):
        curve, low, high = (np.take(each, number, axis=levels) for each in (mean, lower, upper))
        ax.fill_between(x, low, high, color=CYCLE[number], alpha=0.2, lw=0)
        ax.plot(x, curve, color=CYCLE[number], lw=1.4, label=str(level))
    draw_rug(ax, rows[(rows >= x.min()) & (rows <= x.max())])
    _format_times(ax, x)
    ax.set(xlabel=_name(effect, other), ylabel=_LABEL)
    add_legend(ax).set_title(f"{effect.names[levels]}, {_band(effect)}s")


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
        rows = [_positions(each) for each in effect.rows]
        ax.plot(*rows, ls="", marker="o", ms=2, mew=0.3, mec="black", mfc="white", alpha=0.6)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    ax.figure.colorbar(image, ax=ax, label=_LABEL)
    ax.set(xlabel=_name(effect, 0), ylabel=_name(effect, 1))


def _format_times(ax: Axes, values: Shaped[np.ndarray, " n"]) -> None:
    """Write dates along the horizontal axis shortly, if it has dates."""
    if values.dtype.kind == "M":
        locator = AutoDateLocator(maxticks=7)
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))


def _band(effect: Effect) -> str:
    return f"{effect.level:.0%} band"


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


def _name(effect: Effect, place: int) -> str:
    """Return the name of a column, with a unit for times of a day."""
    unit = ", hours" if effect.grids[place].dtype.kind == "m" else ""
    return f"{effect.names[place]}{unit}"


def _texts(values: Shaped[np.ndarray, " n"]) -> list[str]:
    return [f"{value:.3g}" if isinstance(value, float) else str(value) for value in values]
