"""Columns as effects set them: which values rows have, and the inputs that a value becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64, Shaped

from sswim.base.errors import UserError

_TAIL = 0.025
"""Share of the rows beyond either end of a grid that is not given."""


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
        """Return the given values of a grid; raise an error if one cannot be."""

    def grid(self, values: Shaped[np.ndarray, " n"], size: int) -> Shaped[np.ndarray, " G"]:
        """Return a grid for rows with these values, of at most as many points as asked for."""


@dataclass(frozen=True)
class NumberInput:
    """A number that is an input as it is; its other inputs, if any, are zero where it is known."""

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
    """Return the distinct values if they are few, or else evenly spaced ones.

    The latter leave out the outermost values of both sides, where rows are few.
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
