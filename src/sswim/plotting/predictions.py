"""Figures of predictions as functions of the inputs, and of training."""

from __future__ import annotations

from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from sswim.base.validation import require_choice
from sswim.estimator.base import BaseRegressor
from sswim.plotting import style

Quantity = Literal["mean", "std"]
Interval = tuple[float, float]


def plot_prediction(
    regressor: BaseRegressor,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    level: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """Plot the predicted mean and central intervals, for a model of one input and one target.

    With an output warp the median is drawn too: there the function is the median of the
    observations, not their mean.

    Args:
        regressor: Model of one input and one target.
        X: Rows, (N, 1), whose range is shown.
        y: Targets of the rows, drawn as points.
        level: Probability of both intervals: the wide one of new observations and the dark one of
            the function.
        ax: Axes to draw into; by default those of a new figure.
    """
    rows = style.check_inputs(regressor, X, n_inputs=1)[:, 0]
    targets = None if y is None else style.check_targets(regressor, X, y)
    x = style.curve_points(rows)
    with style.allow_unnamed_inputs():
        mean = np.asarray(regressor.predict(x[:, None]))
        lower, upper = regressor.predict_interval(x[:, None], level)
        floor, ceiling = regressor.predict_interval(x[:, None], level, include_noise=False)
        warped = regressor._fitted.warps_targets
        centre = regressor.predict_quantiles(x[:, None], [0.5])[..., 0] if warped else mean
    mean, centre, lower, upper, floor, ceiling = map(
        style.single_target, (mean, centre, lower, upper, floor, ceiling)
    )

    ax = style.axes(ax)
    share = f"{100 * level:.3g} %"
    style.draw_band(ax, x, lower, upper, alpha=0.2, label=f"{share}, new observation")
    style.draw_band(ax, x, floor, ceiling, alpha=0.55, label=f"{share}, function")
    if warped:
        ax.plot(x, centre, color=style.DARK_BLUE, lw=0.9, label="median")
    ax.plot(x, mean, color=style.DARK_BLUE, lw=0.9, ls="--" if warped else "-", label="mean")
    if targets is not None:
        style.draw_points(ax, rows, targets, label="rows", color=style.INK)
    ax.set(xlabel=style.input_name(regressor, 0), ylabel="target")
    style.add_legend(ax)
    return ax


def plot_map(
    regressor: BaseRegressor,
    bounds: tuple[Interval, Interval] | None = None,
    *,
    quantity: Quantity = "mean",
    X: ArrayLike | None = None,
    resolution: int = 100,
    ax: Axes | None = None,
) -> Axes:
    """Plot the prediction over a rectangle as colours, for a model of two inputs and one target.

    Args:
        regressor: Model of two inputs and one target.
        bounds: Rectangle to show, ``((x0, x1), (y0, y1))``; by default the one around the rows.
        quantity: ``"mean"``, or ``"std"`` for the standard deviation of the function.
        X: Rows, (N, 2), drawn as points.
        resolution: Number of cells along each side.
        ax: Axes to draw into; by default those of a new figure.
    """
    require_choice("quantity", quantity, Quantity)
    if resolution < 1:
        raise ValueError(f"resolution must be at least 1. Got {resolution}.")
    style.require_inputs(regressor, 2)
    rows = None if X is None else style.check_inputs(regressor, X, n_inputs=2)
    if bounds is None:
        if rows is None:
            raise ValueError(
                "plot_map needs a rectangle to show. Got neither bounds nor X; give one of them."
            )
        (x0, y0), (x1, y1) = rows.min(0).tolist(), rows.max(0).tolist()
        bounds = (x0, x1), (y0, y1)
    if not all(np.isfinite([low, high]).all() and low < high for low, high in bounds):
        raise ValueError(
            "bounds must be ((x0, x1), (y0, y1)) with x0 < x1 and y0 < y1, all finite. "
            f"Got {bounds}."
        )
    (x0, x1), (y0, y1) = bounds
    middles = (np.arange(resolution) + 0.5) / resolution
    grid = np.meshgrid(x0 + (x1 - x0) * middles, y0 + (y1 - y0) * middles)
    cells = np.stack(grid, axis=-1).reshape(-1, 2)
    with style.allow_unnamed_inputs():
        mean, std = regressor.predict(cells, return_std=True, include_noise=False)
    values, label, cmap = mean, "mean", "viridis"
    if quantity == "std":
        values, label, cmap = std, "standard deviation of the function", "magma"
    values = style.single_target(values).reshape(resolution, resolution)

    ax = style.axes(ax)
    extent = (x0, x1, y0, y1)
    image = ax.imshow(values, extent=extent, origin="lower", aspect="auto", cmap=cmap)
    ax.figure.colorbar(image, ax=ax, label=label)
    if rows is not None:
        # Black points with white edges are visible on dark and on light colours.
        ax.scatter(rows[:, 0], rows[:, 1], s=7, color="black", edgecolors="white", linewidths=0.4)
    ax.set(xlim=(x0, x1), ylim=(y0, y1))
    ax.set(xlabel=style.input_name(regressor, 0), ylabel=style.input_name(regressor, 1))
    return ax


def plot_history(regressor: BaseRegressor, *, ax: Axes | None = None) -> Axes:
    """Plot the objective at every training step, one line for each member."""
    check_is_fitted(regressor)
    ax = style.axes(ax)
    for member, values in enumerate(regressor.history_):
        color = style.CYCLE[member % len(style.CYCLE)]
        ax.plot(values, color=color, lw=1.2, label=f"member {member + 1}")
    ax.set(xlabel="step", ylabel="objective, nats per row")
    if len(regressor.history_) > 1:
        style.add_legend(ax)
    return ax
