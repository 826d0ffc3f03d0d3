"""Figures of predictive densities: are they right, and what shapes them."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float64
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils.validation import check_array, check_is_fitted

from sswim.estimator.regressor import SSWIMRegressor
from sswim.plotting.rows import (
    checked_inputs,
    checked_targets,
    name,
    names_checked,
    positions,
    require_column,
    single_target,
    some,
)
from sswim.plotting.style import CYCLE, INK, axes, legend, points

_LEVELS = np.linspace(0.05, 0.95, 19)


def plot_calibration(
    regressor: SSWIMRegressor, X: ArrayLike, y: ArrayLike, *, ax: Axes | None = None
) -> Axes:
    """How many targets lie within central intervals, against how many should; for one target.

    The band holds 95 % of what as many rows show by chance if the intervals are right.

    Args:
        regressor: Fitted to one target.
        X: Rows, (N, D), that the regressor was not fitted to.
        y: Their targets.
        ax: Where to draw.
    """
    n = len(checked_targets(regressor, X, y))
    # A central interval holds what is at most half its coverage away from the median.
    needed = 2 * np.abs(single_target(regressor.cdf(X, y)) - 0.5)
    observed = [np.mean(needed <= level) for level in _LEVELS]
    low, high = stats.binom.interval(0.95, n, _LEVELS)

    ax = axes(ax)
    ax.fill_between(
        _LEVELS,
        low / n,
        high / n,
        color=INK,
        alpha=0.15,
        lw=0,
        label="95 % by chance",
    )
    ax.plot([0, 1], [0, 1], color=INK, lw=0.8, ls="--", label="exact")
    ax.plot(_LEVELS, observed, color=CYCLE[0], lw=1.2, marker="o", ms=3.5, label="model")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="coverage of the interval", ylabel="fraction of targets within")
    legend(ax)
    return ax


def plot_pit(
    regressor: SSWIMRegressor,
    X: ArrayLike,
    y: ArrayLike,
    *,
    bins: int = 20,
    ax: Axes | None = None,
) -> Axes:
    """How probable the model held smaller targets to be: a flat histogram if it is right.

    This is the probability integral transform of the targets. The band holds 95 % of what a bin
    shows by chance for as many rows if the densities are right.

    Args:
        regressor: Fitted to one target.
        X: Rows, (N, D), that the regressor was not fitted to.
        y: Their targets.
        bins: Of the histogram.
        ax: Where to draw.
    """
    if bins < 1:
        raise ValueError(f"bins must be at least 1. Got {bins}.")
    n = len(checked_targets(regressor, X, y))
    counts, edges = np.histogram(single_target(regressor.cdf(X, y)), bins, (0, 1))
    low, high = stats.binom.interval(0.95, n, 1 / bins)
    unit = n / bins  # rows that a bin should have

    ax = axes(ax)
    ax.stairs(counts / unit, edges, fill=True, color=CYCLE[0], alpha=0.55, lw=0, label="model")
    ax.axhspan(low / unit, high / unit, color=INK, alpha=0.15, lw=0, label="95 % by chance")
    ax.axhline(1, color=INK, lw=0.8, ls="--", label="exact")
    ax.set(xlim=(0, 1), xlabel="predicted probability of a smaller target", ylabel="density")
    ax.set_ylim(0, 1.35 * max(counts.max(), high) / unit)  # room for the legend
    legend(ax)
    return ax


def plot_output_map(
    regressor: SSWIMRegressor,
    y: ArrayLike,
    *,
    member: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """What the output warp makes of the target, over the range of targets; for one target.

    Args:
        regressor: Fitted with an output warp, to one target.
        y: Targets, (N,), which say the range and are drawn as ticks along the bottom.
        member: Which of the models, counted from 0; by default all.
        ax: Where to draw.
    """
    check_is_fitted(regressor)
    if not regressor.warps_targets_:
        raise ValueError(
            "This figure is of a model with an output warp. Got output_warp='none'; fit one with "
            "output_warp='sinh-arcsinh'."
        )
    targets = single_target(check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"))
    x = positions(targets)
    members = range(len(regressor.history_)) if member is None else [member]
    maps = [single_target(regressor.warp_targets(x, member=chosen)) for chosen in members]

    ax = axes(ax)
    width = 1.2 if len(maps) == 1 else 0.7
    for number, warped in enumerate(maps):
        label = None if number else "output warp"  # once for all members
        ax.plot(x, warped, color=CYCLE[0], lw=width, label=label)
    ax.plot(x, _standardised(regressor, x), color=INK, lw=0.8, ls="--", label="no warp")
    ticks = some(targets)
    ax.plot(
        ticks,
        np.full_like(ticks, 0.02),
        ls="",
        marker="|",
        ms=7,
        mew=0.6,
        color=INK,
        alpha=0.4,
        label="targets",
        transform=ax.get_xaxis_transform(),
    )
    ax.set(xlabel="target", ylabel="target, standardised and warped")
    legend(ax)
    return ax


def plot_noise(
    regressor: SSWIMRegressor,
    X: ArrayLike,
    *,
    column: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """The standard deviation of the noise alone, in the units of the target; for one target.

    With one input it is a curve over the range of the rows. With more it depends on them all, and
    each row is a point.

    Args:
        regressor: Fitted to one target.
        X: Rows, (N, D).
        column: Which of the inputs to draw it against, counted from 0.
        ax: Where to draw.
    """
    rows = checked_inputs(regressor, X)
    require_column(rows, column)
    n_inputs = rows.shape[1]
    if n_inputs == 1:
        rows = positions(rows[:, 0])[:, None]
    with names_checked():
        noise = single_target(regressor.predict_noise(rows))

    ax = axes(ax)
    if n_inputs == 1:
        ax.plot(rows[:, 0], noise, color=CYCLE[0], lw=1.2, label="model")
    else:
        points(ax, rows[:, column], noise, label="rows", color=CYCLE[0])
    ax.set(xlabel=name(regressor, column), ylabel="standard deviation of the noise")
    ax.set_ylim(bottom=0)
    return ax


def _standardised(
    regressor: SSWIMRegressor, targets: Float64[np.ndarray, " N"]
) -> Float64[np.ndarray, " N"]:
    """What the output warp is given."""
    scaling = regressor._ensemble.scaling.to(device=torch.device("cpu"))
    return single_target(scaling.targets(torch.from_numpy(targets)[:, None]).numpy())
