"""Figures of the input warps."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from sswim.estimator.base import BaseRegressor
from sswim.plotting import style


def plot_warps(
    regressor: BaseRegressor,
    X: ArrayLike,
    *,
    member: int | None = None,
    column: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Plot an input after each warp against the input itself, ± two standard deviations.

    With one input, a warp is a curve over the range of the rows. With several, it depends on all of
    them, and each row is a point. A projection has coordinates in place of the inputs, for which
    there is :meth:`~sswim.SSWIMRegressor.warp`.

    Args:
        regressor: Model with at least one warp, and without a projection.
        X: Rows, (N, D).
        member: Index of the member, counted from 0; by default ``shown_member_``.
        column: Index of the input, counted from 0.
        ax: Axes to draw into; by default those of a new figure.
    """
    rows = style.shown_inputs(regressor, X, column)
    warps = _compute_warps(regressor, rows, member)

    ax = style.axes(ax)
    x = rows[:, column]
    for layer, (means, variances) in enumerate(warps):
        mean, reach = means[:, column], 2 * np.sqrt(variances[:, column])
        color, label = style.CYCLE[layer % len(style.CYCLE)], f"after warp {layer + 1}, ± 2 std"
        if rows.shape[1] == 1:
            style.draw_band(ax, x, mean - reach, mean + reach, color=color, alpha=0.25)
            ax.plot(x, mean, color=color, lw=1.2, label=label)
        else:
            ax.vlines(x, mean - reach, mean + reach, color=color, alpha=0.25, lw=0.8)
            style.draw_points(ax, x, mean, label=label, color=color)
    ends = [x.min(), x.max()]
    ax.plot(ends, ends, color=style.INK, lw=0.8, ls="--", label="no warp")
    name = style.input_name(regressor, column)
    ax.set(xlabel=name, ylabel=f"{name}, warped")
    style.add_legend(ax)
    return ax


def plot_warped_data(
    regressor: BaseRegressor,
    X: ArrayLike,
    y: ArrayLike,
    *,
    member: int | None = None,
    colour_bar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Plot targets against the input after the last warp, for a model of one input.

    This is the data that the regression on top of the warps sees.

    Args:
        regressor: Model of one input and one target, with at least one warp.
        X: Rows, (N, 1).
        y: Targets of the rows, coloured by the input before the warps.
        member: Index of the member, counted from 0; by default ``shown_member_``.
        colour_bar: Whether to draw a colour bar, which shows the input of each colour.
        ax: Axes to draw into; by default those of a new figure.
    """
    rows = style.check_inputs(regressor, X, n_inputs=1)
    targets = style.check_targets(regressor, X, y)
    mean, _ = _compute_warps(regressor, rows, member)[-1]

    ax = style.axes(ax)
    drawn = ax.scatter(
        mean[:, 0], targets, s=7, c=rows[:, 0], cmap=style.INPUT_COLOURS, linewidths=0
    )
    name = style.input_name(regressor, 0)
    if colour_bar:
        ax.figure.colorbar(drawn, ax=ax, label=f"{name}, not warped")
    ax.set(xlabel=f"{name}, warped", ylabel="target")
    return ax


def _compute_warps(
    regressor: BaseRegressor, rows: Float64[np.ndarray, "N D"], member: int | None
) -> list[tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "N D"]]]:
    """Return means and variances after each warp; raise an error if there is none."""
    with style.allow_unnamed_inputs():
        warps = regressor.warp(rows, member=member)
    if not warps:
        raise ValueError("This figure needs a model with warps. Got depth=0; fit one with depth=1.")
    shown = regressor._fitted.shown_member if member is None else member
    matrix = regressor.members_[shown].model.architecture.warp_matrix
    if matrix != "diagonal":
        raise ValueError(
            "This figure compares inputs with themselves after warps, but a projection mixes them. "
            f"Got warp_matrix={matrix!r}; plot the coordinates that warp() returns."
        )
    return warps
