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
    check_numbers,
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
    column: CategoryColumn | LevelMeansColumn
    places: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

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
        changed[:, list(self.places)] = self._encode([value])[0]
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
    column: TimeColumn
    places: tuple[int, ...]

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.column.name

    def values(self, inputs: Float64[np.ndarray, "n D"]) -> Shaped[np.ndarray, " n"]:
        """Return the times of rows: since 1970 UTC, or since midnight for times of a day."""
        if self.column.is_time_of_day:
            cosine, sine = (inputs[:, place] for place in self.places[:2])
            seconds = np.mod(np.arctan2(sine, cosine) / (2 * np.pi), 1) * CYCLES["day"]
        else:
            seconds = inputs[:, self.places[0]]
        return (seconds * _MICROSECONDS).round().astype(np.int64).astype(self._type)

    @property
    def _type(self) -> str:
        return "timedelta64[us]" if self.column.is_time_of_day else "datetime64[us]"

    def put(self, inputs: Float64[np.ndarray, "n D"], value: Any) -> Float64[np.ndarray, "n D"]:
        """Return the rows with one time in all of them."""
        number = [int(np.asarray(value).astype(self._type).astype(np.int64))]
        if self.column.is_time_of_day:
            array = pa.array([number[0] % int(CYCLES["day"] * _MICROSECONDS)], pa.time64("us"))
        else:
            array = pa.array(number, pa.timestamp("us", self.column.zone or None))
        changed = inputs.copy()
        changed[:, list(self.places)] = self.column.encode(pa.chunked_array([array]))[0]
        return changed

    def check(self, grid: Any) -> Shaped[np.ndarray, " G"]:
        """Return the given times; raise unless all of them are known."""
        try:
            times = np.asarray(grid).astype(self._type)
        except (TypeError, ValueError) as error:
            raise TableError(
                f"The grid of column {self.name!r} must hold times: {error}"
            ) from error
        require_axis(self.name, times)
        if np.isnat(times).any():
            raise TableError(f"The grid of column {self.name!r} must hold times. Got NaT.")
        return times

    def grid(self, values: Shaped[np.ndarray, " n"], size: int) -> Shaped[np.ndarray, " G"]:
        """Return all times that there are, or evenly spaced ones over most of their range."""
        spaced = spaced_grid(values.astype(np.int64).astype(np.float64), size)
        return spaced.round().astype(np.int64).astype(self._type)


@dataclass(frozen=True)
class DegreesInput:
    """Longitude or latitude of a point on the sphere; the other one stays as it is."""

    kind: ClassVar[str] = "number"
    sphere: SphereColumn
    is_longitude: bool
    places: tuple[int, ...] = (0, 1, 2)

    @property
    def name(self) -> str:
        """Name of the column."""
        return self.sphere.longitude if self.is_longitude else self.sphere.latitude

    def values(self, inputs: Float64[np.ndarray, "n D"]) -> Float64[np.ndarray, " n"]:
        """Return the degrees of every row."""
        return self.sphere.decode(inputs[:, list(self.places)])[0 if self.is_longitude else 1]

    def put(self, inputs: Float64[np.ndarray, "n D"], value: float) -> Float64[np.ndarray, "n D"]:
        """Return the rows with one longitude or latitude in all of them."""
        longitude, latitude = self.sphere.decode(inputs[:, list(self.places)])
        new = np.full(len(inputs), float(value))
        both = (new, latitude) if self.is_longitude else (longitude, new)
        changed = inputs.copy()
        changed[:, list(self.places)] = self.sphere.encode(*both)
        return changed

    def check(self, grid: Any) -> Float64[np.ndarray, " G"]:
        """Return the given degrees; raise unless they are finite."""
        return check_numbers(self.name, grid)

    def grid(self, values: Float64[np.ndarray, " n"], size: int) -> Float64[np.ndarray, " G"]:
        """Return all degrees that there are, or evenly spaced ones over most of their range."""
        return spaced_grid(values, size)


def input_columns(schema: Schema) -> list[InputColumn]:
    """Return the columns of a schema that became inputs, in the order in which they were given."""
    by_name: dict[str, InputColumn] = {}
    if schema.sphere is not None:
        for is_longitude in (True, False):
            degrees = DegreesInput(schema.sphere, is_longitude)
            by_name[degrees.name] = degrees
    first = 3 if schema.sphere is not None else 0
    for column in schema.columns:
        if column.name in by_name or not column.inputs:
            continue
        places = tuple(range(first, first + len(column.inputs)))
        first = places[-1] + 1
        if isinstance(column, NumberColumn):
            by_name[column.name] = NumberInput(column.name, places)
        elif isinstance(column, TimeColumn):
            by_name[column.name] = TimeInput(column, places)
        else:
            assert isinstance(column, CategoryColumn | LevelMeansColumn)
            by_name[column.name] = CategoryInput(column, places)
    return [by_name[name] for name in schema.names if name in by_name]
