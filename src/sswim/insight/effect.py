"""Effects: the function averaged over rows, with some columns set to each value of a grid.

The effect of the columns c at the value v is the average function (partial dependence)

    e(v) = (1/n) Σ_i f(x_i with c = v).

It is linear in f. With the posterior mean μ and the joint covariance C of f at these n points, its
mean is (1/n) Σ μ_i and its variance (1/n²) Σ C_ij. Errors of f at different rows are correlated, so
they average out only in part: a band by the mean of the variances would be too wide, and one by the
variance of a mean of independent values too narrow.

Each member has such a mean and variance, and the bands are quantiles of their mixture. A member of
little weight that is far from all others would widen bands by the mixture's standard deviation, and
hardly changes its quantiles.

A column may become several inputs of a model. An :class:`InputColumn` knows which value of the
column a row has, and sets all rows to one value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64, Shaped
from torch import Tensor

from sswim.base.record import concatenate
from sswim.base.validation import UserError
from sswim.ensemble.ensemble import Ensemble
from sswim.ensemble.mixture import Mixture, mix
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.warps.output_warp import OutputMap

_TAIL = 0.025
"""Share of the rows beyond either end of a grid that is not given."""

_SMALLEST_VARIANCE = 1e-20
"""Smallest variance of an average of standardised targets; a constant member has none."""


@dataclass(frozen=True)
class Effect:
    """The function averaged over rows, for each value of one column or of a pair of columns.

    The axes of ``mean``, ``standard_deviation``, ``lower`` and ``upper`` are those of the grids,
    one or two, and then one of targets unless ``fit`` got them as a flat array.
    """

    names: tuple[str, ...]
    """Names of the column or of both columns."""
    kinds: tuple[str, ...]
    """Kind of the values of each: ``"number"``, ``"category"`` or ``"time"``."""
    grids: tuple[Shaped[np.ndarray, " _"], ...]
    """Values that each column is set to: numbers, levels or times."""
    mean: Float64[np.ndarray, "*shape"]
    """Posterior mean of the average function, in the units of the targets."""
    standard_deviation: Float64[np.ndarray, "*shape"]
    """Its posterior standard deviation."""
    lower: Float64[np.ndarray, "*shape"]
    """Lower ends of its central bands."""
    upper: Float64[np.ndarray, "*shape"]
    """Upper ends of its central bands."""
    level: float
    """Probability of the bands at every value."""
    n_rows: int
    """Number of rows that are averaged over."""
    rows: tuple[Shaped[np.ndarray, " n"], ...]
    """Values of each column in the rows, or in a sample of many rows."""


@torch.no_grad()
def average_function(ensemble: Ensemble, sets: Iterable[Float64[Tensor, "n D"]]) -> Mixture:
    """Return the densities of the function averaged over each set of points.

    They are mixtures of the members' densities, each of which is Gaussian: the average of many
    values is close to normal, whatever they are.

    Args:
        ensemble: The members.
        sets: Sets of points in the units of the data.
    """
    used = ensemble.weights.nonzero()[:, 0].tolist()
    predictions: list[list[Prediction]] = [[] for _ in used]
    scaling = ensemble.scaling
    for points in sets:  # one after another: a covariance of all pairs of points is in memory
        for number, averages in zip(used, predictions, strict=True):
            posterior = ensemble.alone(number).posterior(points)
            variance = posterior.covariance.mean((-2, -1)) / scaling.target_spread.square()
            variance = variance.clamp(min=_SMALLEST_VARIANCE)[None]
            mean = scaling.targets(posterior.mean.mean(0, keepdim=True))
            averages.append(Prediction(mean, variance, variance))
    densities = [Density(concatenate(averages), OutputMap(), scaling) for averages in predictions]
    return mix(densities, ensemble.weights[used])


@runtime_checkable
class InputColumn(Protocol):
    """A column that becomes one or several inputs of a model."""

    @property
    def name(self) -> str:
        """Name of the column."""

    @property
    def kind(self) -> str:
        """Kind of its values: ``"number"``, ``"category"`` or ``"time"``."""

    @property
    def places(self) -> tuple[int, ...]:
        """Places of its inputs."""

    def values(self, inputs: Float64[np.ndarray, "n D"]) -> Shaped[np.ndarray, " n"]:
        """Return the value of every row."""

    def put(self, inputs: Float64[np.ndarray, "n D"], value: Any) -> Float64[np.ndarray, "n D"]:
        """Return the rows with a value of the column in all of them."""

    def check(self, grid: Any) -> Shaped[np.ndarray, " G"]:
        """Return the given values of a grid; raise an error if the column cannot have one."""

    def grid(self, values: Shaped[np.ndarray, " n"], size: int) -> Shaped[np.ndarray, " G"]:
        """Return a grid for rows with these values, of at most as many points as asked for."""


@dataclass(frozen=True)
class NumberInput:
    """A numeric column, used unchanged; its other inputs, if any, are zero where it is known."""

    kind: ClassVar[str] = "number"
    name: str
    places: tuple[int, ...]

    def values(self, inputs: Float64[np.ndarray, "n D"]) -> Float64[np.ndarray, " n"]:
        """Return the number of every row."""
        return inputs[:, self.places[0]]

    def put(self, inputs: Float64[np.ndarray, "n D"], value: float) -> Float64[np.ndarray, "n D"]:
        """Return the rows with one number in all of them."""
        changed = inputs.copy()
        changed[:, list(self.places)] = [value, *(0.0 for _ in self.places[1:])]
        return changed

    def check(self, grid: Any) -> Float64[np.ndarray, " G"]:
        """Return the given numbers; raise unless they are finite."""
        return check_numbers(self.name, grid)

    def grid(self, values: Float64[np.ndarray, " n"], size: int) -> Float64[np.ndarray, " G"]:
        """Return all values that there are, or evenly spaced ones over most of their range."""
        return spaced_grid(values, size)


def check_numbers(name: str, grid: Any) -> Float64[np.ndarray, " G"]:
    """Return the values of a grid as numbers; raise unless they are finite, and in one axis."""
    try:
        numbers = np.asarray(grid, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"The grid of column {name!r} must hold numbers: {error}") from error
    require_axis(name, numbers)
    if n_bad := int((~np.isfinite(numbers)).sum()):
        raise UserError(
            f"The grid of column {name!r} must be finite. Got {n_bad} NaN or infinite values; "
            "leave them out."
        )
    return numbers


def require_axis(name: str, grid: Shaped[np.ndarray, "*shape"]) -> None:
    """Raise unless a grid is one axis with at least one value."""
    if grid.ndim != 1 or grid.size == 0:
        raise UserError(
            f"The grid of column {name!r} must be a list of one or more values. Got "
            f"shape {grid.shape}."
        )


def spaced_grid(values: Float64[np.ndarray, " n"], size: int) -> Float64[np.ndarray, " G"]:
    """Return the distinct values if they are few, or else evenly spaced values.

    Evenly spaced values leave out both ends of the range, where rows are few.
    """
    distinct = np.unique(values)
    if len(distinct) <= size:
        return distinct
    first, last = np.quantile(values, [_TAIL, 1 - _TAIL])
    if first == last:  # nearly all rows have the same value
        first, last = distinct[0], distinct[-1]
    return np.linspace(first, last, size)


def common_levels(
    levels: Sequence[str], values: Shaped[np.ndarray, " n"], size: int
) -> Shaped[np.ndarray, " G"]:
    """Return the levels that most rows have, at most ``size`` of them, in their order."""
    counts = [int((values == level).sum()) for level in levels]
    most = sorted(sorted(range(len(levels)), key=lambda place: -counts[place])[:size])
    return np.array([levels[place] for place in most], dtype=object)
