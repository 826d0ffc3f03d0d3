"""Figures of predictive densities: their calibration, their output warp and their noise."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils.validation import check_array, check_is_fitted

from sswim.estimator.base import BaseRegressor
from sswim.plotting import style

_LEVELS = np.linspace(0.05, 0.95, 19)
"""Coverages of the intervals whose calibration is shown."""


def plot_calibration(
    regressor: BaseRegressor, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None
) -> Axes:
    """Plot the observed coverage of central intervals against their nominal coverage.

    The band is where the observed coverage of N rows lies with probability 95 % if the intervals
    are right.

    Args:
        regressor: Model of one target.
        X: Rows, (N, D), that the model was not fitted to.
        y: Targets of the rows.
        ax: Axes to draw into; by default those of a new figure.
    """
    n = len(style.check_targets(regressor, X, y))
    # A target lies in every central interval of at least this coverage.
    needed = 2 * np.abs(style.single_target(regressor.cdf(X, y)) - 0.5)
    observed = [np.mean(needed <= level) for level in _LEVELS]
    low, high = np.asarray(stats.binom.interval(0.95, n, _LEVELS)) / n

    ax = style.axes(ax)
    style.draw_band(ax, _LEVELS, low, high, color=style.INK, alpha=0.15, label="95 % by chance")
    ax.plot([0, 1], [0, 1], color=style.INK, lw=0.8, ls="--", label="exact")
    ax.plot(_LEVELS, observed, color=style.CYCLE[0], lw=1.2, marker="o", ms=3.5, label="model")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="coverage of the interval", ylabel="fraction of targets within")
    style.add_legend(ax)
    return ax


def plot_pit(
    regressor: BaseRegressor, X: ArrayLike, y: ArrayLike, *, bins: int = 20, ax: Axes | None = None
) -> Axes:
    """Plot the histogram of the probability integral transform of the targets.

    The transform of a target is the predicted probability of a smaller one. The histogram is flat
    if the densities are right; the band is where each bin then lies with probability 95 %.

    Args:
        regressor: Model of one target.
        X: Rows, (N, D), that the model was not fitted to.
        y: Targets of the rows.
        bins: Number of bins of the histogram.
        ax: Axes to draw into; by default those of a new figure.
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1. Got {bins}.")
    style.check_targets(regressor, X, y)
    ax = style.axes(ax)
    pit = style.single_target(regressor.cdf(X, y))
    highest = style.draw_pit(ax, pit[:, None], ["model"], bins)
    ax.axhline(1, color=style.INK, lw=0.8, ls="--", label="exact")
    ax.set_ylim(0, 1.35 * highest)  # room for the legend
    style.add_legend(ax)
    return ax


def plot_output_map(
    regressor: BaseRegressor, y: ArrayLike, *, member: int | None = None, ax: Axes | None = None
) -> Axes:
    """Plot the output warp over the range of the targets, for a model of one target.

    Args:
        regressor: Model of one target, with an output warp.
        y: Targets, (N,), whose range is shown; they are also drawn as ticks along the bottom.
        member: Index of the member, counted from 0; by default all are drawn.
        ax: Axes to draw into; by default those of a new figure.
    """
    check_is_fitted(regressor)
    if not regressor._fitted.warps_targets:
        raise ValueError(
            "This figure needs a model with an output warp. Got output_warp='none'; fit one with "
            "output_warp='sinh-arcsinh'."
        )
    targets = style.single_target(check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"))
    x = style.curve_points(targets)
    members = range(len(regressor.history_)) if member is None else [member]
    maps = [style.single_target(regressor.warp_targets(x, member=chosen)) for chosen in members]

    ax = style.axes(ax)
    width = 1.2 if len(maps) == 1 else 0.7
    lines = ax.plot(x, np.transpose(maps), color=style.CYCLE[0], lw=width)
    lines[0].set_label("output warp")  # one entry in the legend for all members
    scaling = regressor.scaling_.to(device=torch.device("cpu"))
    standard = scaling.targets(torch.from_numpy(x)[:, None]).numpy()  # the input of the output warp
    ax.plot(x, style.single_target(standard), color=style.INK, lw=0.8, ls="--", label="no warp")
    ticks = style.thin(targets)
    bottom = ax.get_xaxis_transform()  # data along the axis, and the height of the axes across it
    ax.plot(ticks, np.full_like(ticks, 0.02), ls="", marker="|", ms=7, mew=0.6, color=style.INK,
            alpha=0.4, label="targets", transform=bottom)  # fmt: skip
    ax.set(xlabel="target", ylabel="target, standardised and warped")
    style.add_legend(ax)
    return ax


def plot_noise(
    regressor: BaseRegressor, X: ArrayLike, *, column: int = 0, ax: Axes | None = None
) -> Axes:
    """Plot the standard deviation of the noise in the units of the target, for one target.

    With one input, it is a curve over the range of the rows. With several, it depends on all of
    them, and each row is a point.

    Args:
        regressor: Model of one target.
        X: Rows, (N, D).
        column: Index of the input on the horizontal axis, counted from 0.
        ax: Axes to draw into; by default those of a new figure.
    """
    rows = style.shown_inputs(regressor, X, column)
    with style.allow_unnamed_inputs():
        noise = style.single_target(regressor.predict_noise(rows))

    ax = style.axes(ax)
    if rows.shape[1] == 1:
        ax.plot(rows[:, 0], noise, color=style.CYCLE[0], lw=1.2, label="model")
    else:
        style.draw_points(ax, rows[:, column], noise, label="rows", color=style.CYCLE[0])
    ax.set(xlabel=style.input_name(regressor, column), ylabel="standard deviation of the noise")
    ax.set_ylim(bottom=0)
    return ax
