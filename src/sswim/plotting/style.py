"""What all figures share: colours, lines and bands, and the rows that are given to a figure."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64, Shaped
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike
from scipy import stats
from sklearn.utils.validation import check_is_fitted, validate_data

from sswim.estimator.base import BaseRegressor

CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Line colours, which colour-blind readers can tell apart too (Okabe and Ito)."""

DARK_BLUE = "#003F63"
"""A darker shade of the first colour, for a line on a band of that colour."""

INK = "#404040"
"""Dark grey, for rows and reference lines."""

INPUT_COLOURS = ListedColormap(colormaps["viridis"](np.linspace(0, 0.9, 256)), "inputs")
"""Colour map for points coloured by an input: viridis without yellows too pale for white paper."""

BARS: dict[str, Any] = {"ls": "", "marker": "o", "capsize": 3, "color": CYCLE[0]}
"""Points with bars on both sides."""

_GRID_POINTS = 600
"""Number of evenly spaced points of a curve; it is also evaluated at the rows themselves."""

_MAX_ROWS = 2000
"""Largest number of rows at which a curve is evaluated; larger tables are thinned."""


def axes(ax: Axes | None) -> Axes:
    """Return the axes in the common style; those of a new figure if none are given."""
    if ax is None:
        _, ax = plt.subplots(layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def add_legend(ax: Axes) -> Legend:
    """Add a legend without a frame."""
    # "best" is the default; given explicitly, it does not warn that many rows make it slow.
    return ax.legend(frameon=False, fontsize="small", loc="best")


def draw_points(
    ax: Axes, x: Float64[np.ndarray, " N"], y: Float64[np.ndarray, " N"], *, label: str, color: str
) -> None:
    """Draw rows as points, small and pale enough for many of them."""
    ax.plot(x, y, ls="", marker="o", ms=2, mew=0, color=color, alpha=0.6, label=label)


def draw_band(
    ax: Axes,
    x: Shaped[np.ndarray, " N"],
    lower: Float64[np.ndarray, " N"],
    upper: Float64[np.ndarray, " N"],
    *,
    alpha: float,
    color: str = CYCLE[0],
    label: str | None = None,
) -> None:
    """Draw the area between two curves."""
    ax.fill_between(x, lower, upper, color=color, alpha=alpha, lw=0, label=label)


def draw_pit(
    ax: Axes,
    pits: Float64[np.ndarray, "N T"],
    labels: Sequence[str],
    bins: int = 20,
    colors: Sequence[str] = CYCLE,
) -> float:
    """Draw histograms of probability integral transforms, and return the height of the highest.

    The band is where each bin lies with probability 95 % if the densities are right.
    """
    unit = len(pits) / bins  # expected number of rows in a bin
    low, high = np.asarray(stats.binom.interval(0.95, len(pits), 1 / bins)) / unit
    highest = float(high)
    # Filled histograms of several targets would hide each other.
    look: dict[str, Any] = (
        {"fill": True, "alpha": 0.55, "lw": 0} if len(labels) == 1 else {"lw": 1.2}
    )
    for pit, label, color in zip(pits.T, labels, cycle(colors), strict=False):
        counts, edges = np.histogram(pit, bins, (0, 1))
        ax.stairs(counts / unit, edges, color=color, label=label, **look)
        highest = max(highest, counts.max() / unit)
    ax.axhspan(low, high, color=INK, alpha=0.15, lw=0, label="95 % by chance")
    ax.set(xlim=(0, 1), xlabel="predicted probability of a smaller target", ylabel="density")
    return highest


def draw_rug(ax: Axes, rows: Shaped[np.ndarray, " n"]) -> None:
    """Draw a short line on the horizontal axis for every row."""
    bottom = ax.get_xaxis_transform()  # data along the axis, and the height of the axes across it
    ax.plot(rows, np.zeros(len(rows)), ls="", marker="|", ms=7, mew=0.6, color=INK, alpha=0.5,
            transform=bottom, clip_on=False)  # fmt: skip


def write_plainly(axis: Axis) -> None:
    """Write the numbers of a logarithmic axis as 0.02 and 30, not as powers of ten."""
    low, high = axis.get_view_interval()
    locator: Locator = MaxNLocator(6, steps=[1, 2, 5, 10])  # a few of a short range
    if high / low > 8:  # few enough that they do not touch
        locator = LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,))
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def png(figure: Figure, dpi: int = 150) -> bytes:
    """Return a figure as the content of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def require_inputs(regressor: BaseRegressor, n_inputs: int | None) -> None:
    """Raise an error unless a fitted model has the number of inputs that the figure can show."""
    check_is_fitted(regressor)
    if n_inputs not in (None, regressor.n_features_in_):
        raise ValueError(
            f"This figure needs a model with {n_inputs} input{'s' * (n_inputs != 1)}. Got a model "
            f"with {regressor.n_features_in_}; choose another figure, or fit {n_inputs}."
        )


def check_inputs(
    regressor: BaseRegressor, X: ArrayLike, n_inputs: int | None = None
) -> Float64[np.ndarray, "N D"]:
    """Return rows as an array, after the regressor's own checks, column names included."""
    require_inputs(regressor, n_inputs)
    return validate_data(regressor, X, dtype=np.float64, reset=False)


def shown_inputs(regressor: BaseRegressor, X: ArrayLike, column: int) -> Float64[np.ndarray, "N D"]:
    """Return the rows of a figure of one column: the points of a curve if there are no others."""
    rows = check_inputs(regressor, X)
    n_inputs = rows.shape[1]
    if not 0 <= column < n_inputs:
        raise ValueError(
            f"column must be one of the {n_inputs} inputs, counted from 0. Got {column}."
        )
    return curve_points(rows[:, 0])[:, None] if n_inputs == 1 else rows


def check_targets(
    regressor: BaseRegressor, X: ArrayLike, y: ArrayLike
) -> Float64[np.ndarray, " N"]:
    """Return the targets as a vector; raise an error unless X has one row for each."""
    check_is_fitted(regressor)
    _, targets = validate_data(
        regressor, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=False
    )
    return single_target(np.asarray(targets, dtype=np.float64))


def single_target(values: Shaped[np.ndarray, "N ..."]) -> Float64[np.ndarray, " N"]:
    """Return values as a vector; raise an error if they belong to several targets."""
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(
            f"This figure shows a single target. Got {values.shape[1]}; fit a model to one of them."
        )
    return values.reshape(-1)


def thin(values: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " S"]:
    """Return at most ``_MAX_ROWS`` of the values, evenly spaced in rank, both ends included."""
    if len(values) <= _MAX_ROWS:
        return values
    ranks = np.linspace(0, len(values) - 1, _MAX_ROWS).round().astype(int)
    return np.sort(values)[ranks]


def curve_points(rows: Float64[np.ndarray, " N"]) -> Float64[np.ndarray, " M"]:
    """Return the points at which to evaluate a curve: the rows, and a grid over their range."""
    return np.union1d(thin(rows), np.linspace(rows.min(), rows.max(), _GRID_POINTS))


def input_name(regressor: BaseRegressor, column: int) -> str:
    """Return the name of an input: its column in a data frame, or else its number."""
    names = getattr(regressor, "feature_names_in_", None)
    if names is not None:
        return str(names[column])
    return "input" if regressor.n_features_in_ == 1 else f"input {column + 1}"


@contextmanager
def allow_unnamed_inputs() -> Iterator[None]:
    """Silence scikit-learn's warning that an array has no column names.

    The figures evaluate a model at arrays of their own, even if it was fitted to a data frame.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        yield
