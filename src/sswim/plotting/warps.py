"""Figures of the warps of the inputs."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from sswim.estimator.regressor import SSWIMRegressor
from sswim.plotting.rows import (
    checked_inputs,
    checked_targets,
    name,
    names_checked,
    positions,
    require_column,
)
from sswim.plotting.style import CYCLE, INK, POSITIONS, axes, legend, points


def plot_warps(
    regressor: SSWIMRegressor,
    X: ArrayLike,
    *,
    member: int | None = None,
    column: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """An input after each warp against the input itself, with two standard deviations either way.

    With one input a warp is a curve over the range of the rows. With more it depends on them all,
    and each row is a point.

    Args:
        regressor: Fitted with at least one warp.
        X: Rows, (N, D).
        member: Which of the models, counted from 0; by default ``shown_member_``.
        column: Which of the inputs, counted from 0.
        ax: Where to draw.
    """
    rows = checked_inputs(regressor, X)
    require_column(rows, column)
    n_inputs = rows.shape[1]
    if n_inputs == 1:
        rows = positions(rows[:, 0])[:, None]
    warps = _warps(regressor, rows, member)

    ax = axes(ax)
    x = rows[:, column]
    for layer, (means, variances) in enumerate(warps):
        mean, reach = means[:, column], 2 * np.sqrt(variances[:, column])
        color, label = CYCLE[layer % len(CYCLE)], f"after warp {layer + 1}, ± 2 std"
        if n_inputs == 1:
            ax.fill_between(x, mean - reach, mean + reach, color=color, alpha=0.25, lw=0)
            ax.plot(x, mean, color=color, lw=1.2, label=label)
        else:
            ax.vlines(x, mean - reach, mean + reach, color=color, alpha=0.25, lw=0.8)
            points(ax, x, mean, label=label, color=color)
    ends = [x.min(), x.max()]
    ax.plot(ends, ends, color=INK, lw=0.8, ls="--", label="no warp")
    input_name = name(regressor, column)
    ax.set(xlabel=input_name, ylabel=f"{input_name}, warped")
    legend(ax)
    return ax


def plot_warped_data(
    regressor: SSWIMRegressor,
    X: ArrayLike,
    y: ArrayLike,
    *,
    member: int | None = None,
    colour_bar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Targets against the input after the last warp: what the regression sees; for one input.

    Args:
        regressor: Fitted with at least one warp, to one input and one target.
        X: Rows, (N, 1).
        y: Their targets, coloured by the input before the warps.
        member: Which of the models, counted from 0; by default ``shown_member_``.
        colour_bar: Say beside the axes which input a colour stands for.
        ax: Where to draw.
    """
    rows = checked_inputs(regressor, X, n_inputs=1)
    targets = checked_targets(regressor, X, y)
    mean, _ = _warps(regressor, rows, member)[-1]

    ax = axes(ax)
    drawn = ax.scatter(mean[:, 0], targets, s=7, c=rows[:, 0], cmap=POSITIONS, linewidths=0)
    input_name = name(regressor, 0)
    if colour_bar:
        ax.figure.colorbar(drawn, ax=ax, label=f"{input_name}, not warped")
    ax.set(xlabel=f"{input_name}, warped", ylabel="target")
    return ax


def _warps(
    regressor: SSWIMRegressor, rows: Float64[np.ndarray, "N D"], member: int | None
) -> list[tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "N D"]]]:
    with names_checked():
        warps = regressor.warp(rows, member=member)
    if not warps:
        raise ValueError("This figure is of a model with warps. Got depth=0; fit one with depth=1.")
    return warps
