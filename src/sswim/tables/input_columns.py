"""The columns of a schema as effects set them: values of rows, and the inputs that a value becomes.

Rows are given as the numbers that a model sees: what a column held is found from its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from jaxtyping import Float64, Shaped

from sswim.insight.effect import (
    InputColumn,
    NumberInput,
    common_levels,
    require_axis,
    spaced_grid,
)
from sswim.tables.columns import (
    CYCLES,
    OTHER,
    CategoryColumn,
    LevelMeansColumn,
    NumberColumn,
    SphereColumn,
    TimeColumn,
)
from sswim.tables.schema import Schema
from sswim.tables.table import TableError, quote_names

MISSING = "missing"
"""Word for a row without a level, in a column that has such rows."""

_MICROSECONDS = 1e6


@dataclass(frozen=True)
class CategoryInput:
    """A category, whose levels become indicators, mean targets or both."""

    kind: ClassVar[str] = "category"
    name: str
    places: tuple[int, ...]
    column: CategoryColumn | LevelMeansColumn

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels, with one for rare and unknown ones if they have a place."""
        has_other = isinstance(self.column, CategoryColumn) and self.column.has_other
        return (*self.column.levels, OTHER) if has_other else self.column.levels

    def _encode(self, levels: list[str | None]) -> Float64[np.ndarray, "L d"]:
        return self.column.encode(pa.chunked_array([pa.array(levels, pa.large_string())]))

    def values(self, inputs: Float64[np.ndarray, "n D"]) -> Shaped[np.ndarray, " n"]:
        """Return the level of every row: the one whose inputs are nearest."""
        known: list[str | None] = [*self.levels, *([None] if self.column.has_missing else [])]
        codes = self._encode(known)
        rows = inputs[:, list(self.places)]
        squares = np.square(rows).sum(1)[:, None] + np.square(codes).sum(1) - 2 * rows @ codes.T
        names = np.array([MISSING if level is None else level for level in known], dtype=object)
        return names[squares.argmin(1)]

    def put(self, inputs: Float64[np.ndarray, "n D"], value: str) -> Float64[np.ndarray, "n D"]:
        """Return the rows with one level in all of them."""
        changed = inputs.copy()
        changed[:, list(self.places)] = self._encode([value])
        return changed

    def check(self, grid: Any) -> Shaped[np.ndarray, " G"]:
        """Return the given levels; raise unless the model has learnt them."""
        levels = np.array([str(level) for level in np.atleast_1d(np.asarray(grid, dtype=object))])
        require_axis(self.name, levels)
        if unknown := [level for level in levels.tolist() if level not in self.levels]:
            raise TableError(
                f"The grid of column {self.name!r} must be levels of the fit. Got "
                f"{quote_names(unknown)}; the levels are {quote_names(list(self.levels))}."
            )
        return levels.astype(object)

    def grid(self, values: Shaped[np.ndarray, " n"], size: int) -> Shaped[np.ndarray, " G"]:
        """Return the levels that most rows have."""
        return common_levels(self.levels, values, size)


@dataclass(frozen=True)
class TimeInput:
    """A date or time, which becomes seconds and the phases of cycles."""

    kind: ClassVar[str] = "time"
    name: str
    places: tuple[int, ...]
    column: TimeColumn

    @property
    def _type(self) -> str:
        return "timedelta64[us]" if self.column.is_time_of_day else "datetime64[us]"

    def values(self, inputs: Float64[np.ndarray, "n D"]) -> Shaped[np.ndarray, " n"]:
        """Return the times of rows: since 1970 UTC, or since midnight for times of a day."""
        seconds = inputs[:, self.places[0]]
        if self.column.is_time_of_day:  # whose inputs are cosine and sine
            sine = inputs[:, self.places[1]]
            seconds = np.mod(np.arctan2(sine, seconds) / (2 * np.pi), 1) * CYCLES["day"]
        return (seconds * _MICROSECONDS).round().astype(np.int64).astype(self._type)

    def put(self, inputs: Float64[np.ndarray, "n D"], value: Any) -> Float64[np.ndarray, "n D"]:
        """Return the rows with one time in all of them."""
        number = int(np.asarray(value).astype(self._type).astype(np.int64))
        dtype = pa.timestamp("us", self.column.zone or None)
        if self.column.is_time_of_day:
            number, dtype = number % int(CYCLES["day"] * _MICROSECONDS), pa.time64("us")
        changed = inputs.copy()
        times = pa.chunked_array([pa.array([number], dtype)])
        changed[:, list(self.places)] = self.column.encode(times)
        return changed

    def check(self, grid: Any) -> Shaped[np.ndarray, " G"]:
        """Return the given times; raise unless all of them are known."""
        rule = f"The grid of column {self.name!r} must hold times"
        try:
            times = np.asarray(grid).astype(self._type)
        except (TypeError, ValueError) as error:
            raise TableError(f"{rule}: {error}") from error
        require_axis(self.name, times)
        if np.isnat(times).any():
            raise TableError(f"{rule}. Got NaT.")
        return times

    def grid(self, values: Shaped[np.ndarray, " n"], size: int) -> Shaped[np.ndarray, " G"]:
        """Return all times that there are, or evenly spaced ones over most of their range."""
        spaced = spaced_grid(values.astype(np.int64).astype(np.float64), size)
        return spaced.round().astype(np.int64).astype(self._type)


@dataclass(frozen=True)
class DegreesInput(NumberInput):
    """Longitude or latitude of a point on the sphere; the other one stays as it is."""

    sphere: SphereColumn

    def values(self, inputs: Float64[np.ndarray, "n D"]) -> Float64[np.ndarray, " n"]:
        """Return the degrees of every row."""
        longitude, latitude = self.sphere.decode(inputs[:, list(self.places)])
        return longitude if self.name == self.sphere.longitude else latitude

    def put(self, inputs: Float64[np.ndarray, "n D"], value: float) -> Float64[np.ndarray, "n D"]:
        """Return the rows with one longitude or latitude in all of them."""
        longitude, latitude = self.sphere.decode(inputs[:, list(self.places)])
        new = np.full(len(inputs), float(value))
        both = (new, latitude) if self.name == self.sphere.longitude else (longitude, new)
        changed = inputs.copy()
        changed[:, list(self.places)] = self.sphere.encode(*both)
        return changed


def input_columns(schema: Schema) -> list[InputColumn]:
    """Return the columns of a schema that became inputs, in the order in which they were given."""
    found: list[InputColumn] = []
    for column in schema.columns:
        name = column.name
        places = tuple(np.flatnonzero(schema.places(name)).tolist())
        match column:
            case _ if schema.sphere and name in (schema.sphere.longitude, schema.sphere.latitude):
                found.append(DegreesInput(name, (0, 1, 2), schema.sphere))
            case NumberColumn():
                found.append(NumberInput(name, places))
            case TimeColumn():
                found.append(TimeInput(name, places, column))
            case CategoryColumn() | LevelMeansColumn():
                found.append(CategoryInput(name, places, column))
    return found
