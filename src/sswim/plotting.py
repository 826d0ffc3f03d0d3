"""Figures of a fitted regressor: predictions, maps, warps, calibration and training.

Needs matplotlib, which nothing else in the package imports. Every function draws into the axes it
is given, or into those of a new figure, and returns them.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64, Shaped
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils.validation import check_is_fitted, validate_data

from sswim.regressor import SSWIMRegressor
from sswim.validation import require_choice

Quantity = Literal["mean", "std"]
Interval = tuple[float, float]

CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colours that differ for the colour-blind as well (Okabe and Ito)."""

DEEP = "#003F63"
"""The first of them darkened, for a line that is seen on its own band."""

INK = "#404040"
POSITIONS = ListedColormap(colormaps["viridis"](np.linspace(0, 0.9, 256)), "positions")
"""For points coloured by where they lie: without the palest yellows, which white swallows."""

_GRID = 600
"""Positions of a curve besides the rows themselves."""

_MOST_ROWS = 2000
"""Rows at which a curve is evaluated as well; of more, as many evenly spaced in rank."""

_LEVELS = np.linspace(0.05, 0.95, 19)


def plot_prediction(
    regressor: SSWIMRegressor,
    X: ArrayLike,
    y: ArrayLike | None = None,
    *,
    coverage: float = 0.9,
    ax: Axes | None = None,
) -> Axes:
    """The mean over the range of the rows, with central intervals; for one input, one target.

    Args:
        regressor: Fitted to one input and one target.
        X: Rows, (N, 1), that say which range to show.
        y: Their targets, drawn as points.
        coverage: Of the intervals: the wide one for new observations, the dark one for the
            function.
        ax: Where to draw.
    """
    rows = _inputs(regressor, X, n_inputs=1)[:, 0]
    targets = None if y is None else _single_target(_targets(regressor, X, y))
    positions = _positions(rows)
    with _names_checked():
        mean, std = regressor.predict(positions[:, None], return_std=True, include_noise=False)
        lower, upper = regressor.predict_interval(positions[:, None], coverage)
    mean, lower, upper = _single_target(mean), _single_target(lower), _single_target(upper)
    reach = float(stats.norm.ppf(0.5 + 0.5 * coverage)) * _single_target(std)

    ax = _axes(ax)
    share = f"{100 * coverage:.3g} %"
    ax.fill_between(
        positions, lower, upper, color=CYCLE[0], alpha=0.2, lw=0, label=f"{share}, new observation"
    )
    ax.fill_between(
        positions,
        mean - reach,
        mean + reach,
        color=CYCLE[0],
        alpha=0.55,
        lw=0,
        label=f"{share}, function",
    )
    ax.plot(positions, mean, color=DEEP, lw=0.9, label="mean")
    if targets is not None:
        _points(ax, rows, targets, label="rows", color=INK)
    ax.set(xlabel=_name(regressor, 0), ylabel="target")
    _legend(ax)
    return ax


def plot_map(
    regressor: SSWIMRegressor,
    bounds: tuple[Interval, Interval] | None = None,
    *,
    quantity: Quantity = "mean",
    X: ArrayLike | None = None,
    resolution: int = 100,
    ax: Axes | None = None,
) -> Axes:
    """The prediction over a rectangle, as colours; for two inputs, one target.

    Args:
        regressor: Fitted to two inputs and one target.
        bounds: The rectangle, ``((x0, x1), (y0, y1))``; by default the one around the rows.
        quantity: ``"mean"``, or ``"std"`` for the standard deviation of the function.
        X: Rows, (N, 2), drawn as points.
        resolution: Cells along each side.
        ax: Where to draw.
    """
    require_choice("quantity", quantity, Quantity)
    if resolution < 1:
        raise ValueError(f"resolution must be at least 1. Got {resolution}.")
    _require_inputs(regressor, 2)
    rows = None if X is None else _inputs(regressor, X, n_inputs=2)
    (x0, x1), (y0, y1) = _bounds(bounds, rows)
    middles = (np.arange(resolution) + 0.5) / resolution
    grid = np.meshgrid(x0 + (x1 - x0) * middles, y0 + (y1 - y0) * middles)
    cells = np.stack(grid, axis=-1).reshape(-1, 2)
    with _names_checked():
        mean, std = regressor.predict(cells, return_std=True, include_noise=False)
    values = _single_target(mean if quantity == "mean" else std).reshape(resolution, resolution)

    ax = _axes(ax)
    image = ax.imshow(
        values,
        extent=(x0, x1, y0, y1),
        origin="lower",
        aspect="auto",
        cmap="viridis" if quantity == "mean" else "magma",
    )
    label = "mean" if quantity == "mean" else "standard deviation of the function"
    ax.figure.colorbar(image, ax=ax, label=label)
    if rows is not None:
        # White around black is seen on either end of the colours.
        ax.scatter(rows[:, 0], rows[:, 1], s=7, color="black", edgecolors="white", linewidths=0.4)
    ax.set(xlim=(x0, x1), ylim=(y0, y1))
    ax.set(xlabel=_name(regressor, 0), ylabel=_name(regressor, 1))
    return ax


def plot_warps(
    regressor: SSWIMRegressor,
    X: ArrayLike,
    *,
    member: int = 0,
    column: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """An input after each warp against the input itself, with two standard deviations either way.

    With one input a warp is a curve over the range of the rows. With more it depends on them all,
    and each row is a point.

    Args:
        regressor: Fitted with at least one warp.
        X: Rows, (N, D).
        member: Which of the models, counted from 0.
        column: Which of the inputs, counted from 0.
        ax: Where to draw.
    """
    rows = _inputs(regressor, X)
    n_inputs = rows.shape[1]
    if not 0 <= column < n_inputs:
        raise ValueError(
            f"column must be one of the {n_inputs} inputs, counted from 0. Got {column}."
        )
    if n_inputs == 1:
        rows = _positions(rows[:, 0])[:, None]
    warps = _warps(regressor, rows, member)

    ax = _axes(ax)
    x = rows[:, column]
    for layer, (means, variances) in enumerate(warps):
        mean, reach = means[:, column], 2 * np.sqrt(variances[:, column])
        color, label = CYCLE[layer % len(CYCLE)], f"after warp {layer + 1}, ± 2 std"
        if n_inputs == 1:
            ax.fill_between(x, mean - reach, mean + reach, color=color, alpha=0.25, lw=0)
            ax.plot(x, mean, color=color, lw=1.2, label=label)
        else:
            ax.vlines(x, mean - reach, mean + reach, color=color, alpha=0.25, lw=0.8)
            _points(ax, x, mean, label=label, color=color)
    ends = [x.min(), x.max()]
    ax.plot(ends, ends, color=INK, lw=0.8, ls="--", label="no warp")
    name = _name(regressor, column)
    ax.set(xlabel=name, ylabel=f"{name}, warped")
    _legend(ax)
    return ax


def plot_warped_data(
    regressor: SSWIMRegressor,
    X: ArrayLike,
    y: ArrayLike,
    *,
    member: int = 0,
    colour_bar: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Targets against the input after the last warp: what the regression sees; for one input.

    Args:
        regressor: Fitted with at least one warp, to one input and one target.
        X: Rows, (N, 1).
        y: Their targets, coloured by the input before the warps.
        member: Which of the models, counted from 0.
        colour_bar: Say beside the axes which input a colour stands for.
        ax: Where to draw.
    """
    rows = _inputs(regressor, X, n_inputs=1)
    targets = _single_target(_targets(regressor, X, y))
    mean, _ = _warps(regressor, rows, member)[-1]

    ax = _axes(ax)
    points = ax.scatter(mean[:, 0], targets, s=7, c=rows[:, 0], cmap=POSITIONS, linewidths=0)
    name = _name(regressor, 0)
    if colour_bar:
        ax.figure.colorbar(points, ax=ax, label=f"{name}, not warped")
    ax.set(xlabel=f"{name}, warped", ylabel="target")
    return ax


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
    check_is_fitted(regressor)
    targets = _single_target(_targets(regressor, X, y))
    intervals = [regressor.predict_interval(X, float(level)) for level in _LEVELS]
    observed = [
        np.mean((_single_target(lower) <= targets) & (targets <= _single_target(upper)))
        for lower, upper in intervals
    ]
    low, high = stats.binom.interval(0.95, len(targets), _LEVELS)

    ax = _axes(ax)
    ax.fill_between(
        _LEVELS,
        low / len(targets),
        high / len(targets),
        color=INK,
        alpha=0.15,
        lw=0,
        label="95 % by chance",
    )
    ax.plot([0, 1], [0, 1], color=INK, lw=0.8, ls="--", label="exact")
    ax.plot(_LEVELS, observed, color=CYCLE[0], lw=1.2, marker="o", ms=3.5, label="model")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.set(xlabel="coverage of the interval", ylabel="fraction of targets within")
    _legend(ax)
    return ax


def plot_history(regressor: SSWIMRegressor, *, ax: Axes | None = None) -> Axes:
    """The objective at every training step; a line for each member."""
    check_is_fitted(regressor)
    ax = _axes(ax)
    for member, values in enumerate(regressor.history_):
        color = CYCLE[member % len(CYCLE)]
        ax.plot(values, color=color, lw=1.2, label=f"member {member + 1}")
    ax.set(xlabel="step", ylabel="objective, nats per row")
    if len(regressor.history_) > 1:
        _legend(ax)
    return ax


def png(figure: Figure, dpi: int = 150) -> bytes:
    """A figure as the content of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _axes(ax: Axes | None) -> Axes:
    """The axes to draw into, in the one style."""
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _legend(ax: Axes) -> Legend:
    # "best" is the default, but said aloud it does not warn of the time that many rows take it.
    return ax.legend(frameon=False, fontsize="small", loc="best")


def _points(
    ax: Axes,
    x: Float64[np.ndarray, " N"],
    y: Float64[np.ndarray, " N"],
    *,
    label: str,
    color: str,
) -> None:
    ax.plot(x, y, ls="", marker="o", ms=2, mew=0, color=color, alpha=0.6, label=label)


def _require_inputs(regressor: SSWIMRegressor, n_inputs: int) -> None:
    check_is_fitted(regressor)
    if regressor.n_features_in_ != n_inputs:
        raise ValueError(
            f"This figure is of a model with {n_inputs} input{'s' * (n_inputs > 1)}. Got one with "
            f"{regressor.n_features_in_}; choose another figure, or fit fewer or more columns."
        )


def _inputs(
    regressor: SSWIMRegressor, X: ArrayLike, n_inputs: int | None = None
) -> Float64[np.ndarray, "N D"]:
    """Check rows as the regressor does, the names of their columns included."""
    check_is_fitted(regressor)
    if n_inputs is not None:
        _require_inputs(regressor, n_inputs)
    return validate_data(regressor, X, dtype=np.float64, reset=False)


def _targets(regressor: SSWIMRegressor, X: ArrayLike, y: ArrayLike) -> Float64[np.ndarray, "N ..."]:
    """Check targets, and that there is one row of them for each of X."""
    _, targets = validate_data(
        regressor, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=False
    )
    return np.asarray(targets, dtype=np.float64)


def _single_target(values: Shaped[np.ndarray, "N ..."]) -> Float64[np.ndarray, " N"]:
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(
            f"This figure is of a single target. Got {values.shape[1]}; fit a model to one of them."
        )
    return values.reshape(-1)


def _positions(rows: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " M"]:
    """Where to evaluate a curve: evenly over the rows' range, and where the rows are."""
    if len(rows) > _MOST_ROWS:
        ranks = np.linspace(0, len(rows) - 1, _MOST_ROWS).round().astype(int)
        rows = np.sort(rows)[ranks]
    return np.union1d(rows, np.linspace(rows.min(), rows.max(), _GRID))


def _bounds(
    bounds: tuple[Interval, Interval] | None, rows: Float64[np.ndarray, "N 2"] | None
) -> tuple[Interval, Interval]:
    if bounds is None:
        if rows is None:
            raise ValueError("plot_map must know which rectangle to show. Give bounds, or rows X.")
        (x0, y0), (x1, y1) = rows.min(0).tolist(), rows.max(0).tolist()
        bounds = (x0, x1), (y0, y1)
    if not all(np.isfinite([low, high]).all() and low < high for low, high in bounds):
        raise ValueError(
            "bounds must be ((x0, x1), (y0, y1)) with x0 < x1 and y0 < y1, all finite. "
            f"Got {bounds}."
        )
    return bounds


def _warps(
    regressor: SSWIMRegressor, rows: Float64[np.ndarray, "N D"], member: int
) -> list[tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "N D"]]]:
    with _names_checked():
        warps = regressor.warp(rows, member=member)
    if not warps:
        raise ValueError("This figure is of a model with warps. Got depth=0; fit one with depth=1.")
    return warps


def _name(regressor: SSWIMRegressor, column: int) -> str:
    names = getattr(regressor, "feature_names_in_", None)
    if names is not None:
        return str(names[column])
    return "input" if regressor.n_features_in_ == 1 else f"input {column + 1}"


@contextmanager
def _names_checked() -> Iterator[None]:
    """Arrays have no column names, which scikit-learn warns of where data frames were learnt."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
