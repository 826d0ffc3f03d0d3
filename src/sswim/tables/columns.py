"""The columns of a schema: how a column of a table becomes inputs.

Each kind of column has ``encode``, which returns one matrix column per input, NaN where the value
is missing. A column that had missing values in the rows of ``fit`` has one input more, its last,
which says whether the value is missing.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64, Int64

from sswim.tables.table import TableError, quote_names
from sswim.tables.values import (
    as_levels,
    as_numbers,
    finite_numbers,
    is_text,
    parse_texts,
    require_kind,
)

CYCLES = {"day": 86_400.0, "week": 604_800.0, "year": 31_556_952.0}
"""Lengths of the cycles of a time, in seconds."""

OTHER = "other"
"""Word for the levels that are too rare to be told apart."""


class UnreadableValueWarning(UserWarning):
    """A text in a column of numbers or times."""


class UnknownCategoryWarning(UserWarning):
    """A level that the model has not learnt."""


@dataclass(frozen=True)
class Column(ABC):
    """A column of a table that becomes inputs."""

    kind: ClassVar[str]
    name: str

    @property
    def has_missing(self) -> bool:
        """Whether the last input says that the value is missing."""
        return False

    @property
    @abstractmethod
    def inputs(self) -> list[str]:
        """Names of its inputs."""

    @abstractmethod
    def encode(self, values: pa.ChunkedArray) -> Float64[np.ndarray, "N d"]:
        """Return the inputs of values, NaN where they are missing."""

    def _with_missing(self, names: list[str]) -> list[str]:
        """Add the name of the input that says that a value is missing, if there is one."""
        return [*names, f"{self.name} is missing"] if self.has_missing else names

    def _with_indicator(
        self, inputs: Float64[np.ndarray, "N d"], missing: Bool[np.ndarray, " N"]
    ) -> Float64[np.ndarray, "N e"]:
        """Add the input that says that a value is missing, if there is one."""
        return np.column_stack((inputs, missing.astype(float))) if self.has_missing else inputs


@dataclass(frozen=True)
class NumberColumn(Column):
    """A number, which stays as it is. Booleans are 0 and 1, durations are seconds."""

    kind: ClassVar[str] = "number"
    has_missing: bool = False
    text_format: str = ""
    """Marks of the number format if the column was text in ``fit``."""
    markers: tuple[str, ...] = ()
    """Texts that stood for missing values in ``fit``."""

    @property
    def inputs(self) -> list[str]:
        """Name of the number, and of the input that says that it is missing."""
        return self._with_missing([self.name])

    def encode(self, values: pa.ChunkedArray) -> Float64[np.ndarray, "N d"]:
        """Return the numbers."""
        if is_text(values.type):
            values = _parsed(values, self, self.text_format or ".", "numbers")
        require_kind(self.name, values.type, "number")
        if pa.types.is_duration(values.type):
            values = pa.chunked_array([pa.array(_in_seconds(values))])
        numbers = finite_numbers(self.name, values)
        return self._with_indicator(numbers[:, None], np.isnan(numbers))


@dataclass(frozen=True)
class TimeColumn(Column):
    """A date or time, which becomes seconds since 1970-01-01 UTC and the phase of its cycles.

    Each cycle becomes a cosine and a sine, so that midnight, Sunday and New Year are nothing
    special. Phases are those of the local time where the column has a time zone.
    """

    kind: ClassVar[str] = "time"
    has_missing: bool = False
    cycles: tuple[str, ...] = ()
    """Cycles whose phases are inputs, by their names in ``CYCLES``."""
    zone: str = ""
    """Time zone of the column in ``fit``, if it had one."""
    text_format: str = ""
    """Pattern of the times if the column was text in ``fit``."""
    is_time_of_day: bool = False
    """Whether the values are times of a day without a date, whose seconds repeat."""
    markers: tuple[str, ...] = ()
    """Texts that stood for missing values in ``fit``."""

    @property
    def inputs(self) -> list[str]:
        """Names of the seconds and of the phases."""
        waves = [f"{self.name} {wave} {cycle}" for cycle in self.cycles for wave in ("cos", "sin")]
        return self._with_missing(waves if self.is_time_of_day else [self.name, *waves])

    def encode(self, values: pa.ChunkedArray) -> Float64[np.ndarray, "N d"]:
        """Return the seconds, and cosine and sine of each phase."""
        if is_text(values.type):
            values = _parsed(values, self, self.text_format or "ISO 8601", "dates or times")
        require_kind(self.name, values.type, "time")
        self._require_same_sort(values.type)
        seconds = _in_seconds(values)
        phases = seconds
        if pa.types.is_timestamp(values.type) and self.zone:
            local = pc.local_timestamp(values.cast(pa.timestamp(values.type.unit, self.zone)))
            phases = _in_seconds(local)
        waves = [
            wave(2 * np.pi / CYCLES[cycle] * np.mod(phases, CYCLES[cycle]))
            for cycle in self.cycles
            for wave in (np.cos, np.sin)
        ]
        inputs = np.stack(waves if self.is_time_of_day else [seconds, *waves], axis=1)
        return self._with_indicator(inputs, np.isnan(seconds))

    def _require_same_sort(self, dtype: pa.DataType) -> None:
        """Raise unless values have a date, and a time zone, where those of ``fit`` had one."""
        if pa.types.is_null(dtype):
            return
        has_zone = pa.types.is_timestamp(dtype) and dtype.tz is not None
        if pa.types.is_time(dtype) != self.is_time_of_day or has_zone != bool(self.zone):
            sort = "with a time zone" if self.zone else "without a time zone"
            sort = "of a day, without a date" if self.is_time_of_day else sort
            raise TableError(
                f"Column {self.name!r} must hold times {sort}, as in the rows that were learnt. "
                f"Got type {dtype}."
            )


@dataclass(frozen=True)
class CategoryColumn(Column):
    """A category, which becomes one indicator, 0 or 1, per level.

    Of two levels without others, the second has the only indicator. A missing value is a level
    where it was one in ``fit``: all indicators are 0, and the input that says so is 1.
    """

    kind: ClassVar[str] = "category"
    has_missing: bool = False
    levels: tuple[str, ...] = ()
    has_other: bool = False
    """Whether there is an indicator for levels that are rare or unknown."""

    @property
    def inputs(self) -> list[str]:
        """Names of the indicators."""
        shown = self.levels[1:] if self._is_binary else self.levels
        names = [f"{self.name}={level}" for level in shown]
        return self._with_missing([*names, f"{self.name} {OTHER}"] if self.has_other else names)

    @property
    def _is_binary(self) -> bool:
        return len(self.levels) == 2 and not self.has_other and not self.has_missing

    def encode(self, values: pa.ChunkedArray) -> Float64[np.ndarray, "N d"]:
        """Return the indicators; NaN where a level is unknown and there is no place for it."""
        codes, missing = level_codes(self.name, values, self.levels, warn=not self.has_other)
        n_levels = len(self.levels)
        matrix = np.zeros((len(codes), n_levels + self.has_other))
        known = codes >= 0
        matrix[known, codes[known]] = 1.0
        unknown = ~known & ~missing
        if self.has_other:
            matrix[unknown, -1] = 1.0
        else:
            matrix[unknown] = np.nan
        if not self.has_missing:
            matrix[missing] = np.nan
        return self._with_indicator(matrix[:, 1:] if self._is_binary else matrix, missing)


@dataclass(frozen=True)
class LevelMeansColumn(Column):
    """A category, which becomes the mean target of its level and indicators of common levels.

    The mean tells levels apart that are too rare for an indicator, and which levels are alike. A
    missing or unknown level has the mean of all rows; a missing one has its own mean if there were
    missing values in ``fit``.
    """

    kind: ClassVar[str] = "levels"
    levels: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]
    """Mean targets of each level."""
    other: tuple[float, ...]
    """Mean targets of all rows."""
    missing: tuple[float, ...]
    """Mean targets of the rows whose level is missing, or of all rows if there were none."""
    shown: CategoryColumn | None = None
    """The indicators of common levels; None if there are none."""

    @property
    def has_missing(self) -> bool:
        """Whether the last input says that the value is missing."""
        return self.shown is not None and self.shown.has_missing

    @property
    def inputs(self) -> list[str]:
        """Names of the means and of the indicators."""
        numbers = [f" {number}" for number in range(len(self.other))]
        means = [f"{self.name} mean{number}" for number in (numbers if numbers[1:] else [""])]
        return means if self.shown is None else [*means, *self.shown.inputs]

    @cached_property
    def _table(self) -> Float64[np.ndarray, "L T"]:
        """Means of all levels, then of missing and of unknown ones."""
        return np.array([*self.means, self.missing, self.other])

    def encode(
        self,
        values: pa.ChunkedArray,
        fold_means: Float64[np.ndarray, "L K T"] | None = None,
        folds: Int64[np.ndarray, " N"] | None = None,
    ) -> Float64[np.ndarray, "N d"]:
        """Return the mean targets of levels, and the indicators.

        Args:
            values: Values of the column.
            fold_means: Means without the rows of each fold, of each level and then of missing and
                unknown ones, for rows of training.
            folds: The fold of each row of training.
        """
        codes, missing = level_codes(self.name, values, self.levels, warn=False)
        n_levels = len(self.levels)  # missing and unknown ones follow the levels
        rows = np.where(codes >= 0, codes, np.where(missing, n_levels, n_levels + 1))
        means = self._table[rows] if fold_means is None else fold_means[rows, folds]
        return means if self.shown is None else np.hstack((means, self.shown.encode(values)))


@dataclass(frozen=True)
class IgnoredColumn(Column):
    """A column that is not used, because it cannot tell anything."""

    kind: ClassVar[str] = "ignored"
    reason: str = ""

    @property
    def inputs(self) -> list[str]:
        """No names."""
        return []

    def encode(self, values: pa.ChunkedArray) -> Float64[np.ndarray, "N 0"]:
        """Return no inputs."""
        return np.empty((len(values), 0))


@dataclass(frozen=True)
class SphereColumn:
    """Two columns, longitude and latitude in degrees, which become east, north and up.

    These are the coordinates of the point on the unit sphere, seen from the middle of the rows of
    ``fit``. Distances are those of straight lines through the sphere (chordal distances): the date
    line and the poles are nothing special, and in a small region ``up`` hardly varies.
    """

    kind: ClassVar[str] = "coordinates"
    longitude: str
    latitude: str
    centre: tuple[float, float] = (0.0, 0.0)
    """Longitude and latitude from which the sphere is seen."""

    @property
    def inputs(self) -> list[str]:
        """Names of the three coordinates."""
        both = f"{self.longitude}, {self.latitude}"
        return [f"{both} {axis}" for axis in ("east", "north", "up")]

    def encode(
        self, longitude: Float64[np.ndarray, " N"], latitude: Float64[np.ndarray, " N"]
    ) -> Float64[np.ndarray, "N 3"]:
        """Return the coordinates of points, NaN where one of their degrees is missing."""
        if n_bad := int((np.abs(latitude) > 90).sum()):
            raise TableError(
                f"Latitudes must be degrees from −90 to 90. Got {n_bad} others in column "
                f"{self.latitude!r}; correct them, or name the coordinates as longitude, latitude."
            )
        return points(longitude, latitude) @ self._axes.T

    def decode(
        self, inputs: Float64[np.ndarray, "N 3"]
    ) -> tuple[Float64[np.ndarray, " N"], Float64[np.ndarray, " N"]]:
        """Return longitude and latitude of points, given their coordinates."""
        x, y, z = (inputs @ self._axes).T
        return np.degrees(np.arctan2(y, x)), np.degrees(np.arctan2(z, np.hypot(x, y)))

    @property
    def _axes(self) -> Float64[np.ndarray, "3 3"]:
        """The directions east, north and up at the centre."""
        east, north = np.radians(self.centre)
        return np.array(
            [
                [-np.sin(east), np.cos(east), 0.0],
                [-np.sin(north) * np.cos(east), -np.sin(north) * np.sin(east), np.cos(north)],
                [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)],
            ]
        )


def points(
    longitude: Float64[np.ndarray, " N"], latitude: Float64[np.ndarray, " N"]
) -> Float64[np.ndarray, "N 3"]:
    """Return the points on the unit sphere of degrees."""
    east, north = np.radians(longitude), np.radians(latitude)
    flat = np.cos(north)
    return np.stack((flat * np.cos(east), flat * np.sin(east), np.sin(north)), axis=1)


def centre_of(
    longitude: Float64[np.ndarray, " N"], latitude: Float64[np.ndarray, " N"]
) -> tuple[float, float]:
    """Return longitude and latitude of the middle of points; zero if they are all around."""
    known = np.isfinite(longitude) & np.isfinite(latitude)
    if not known.any():
        return 0.0, 0.0
    x, y, z = points(longitude[known], latitude[known]).mean(0).tolist()
    if np.hypot(np.hypot(x, y), z) < 0.05:
        return 0.0, 0.0
    return float(np.degrees(np.arctan2(y, x))), float(np.degrees(np.arctan2(z, np.hypot(x, y))))


def _parsed(
    values: pa.ChunkedArray, column: NumberColumn | TimeColumn, text_format: str, words: str
) -> pa.ChunkedArray:
    """Return the numbers or times of texts; others are missing, with a warning of unknown ones.

    Raise an error if there are only others, and the column was no text in ``fit``.
    """
    texts = as_levels(values).combine_chunks()
    parsed = parse_texts(texts, text_format)
    known = pc.is_in(texts, value_set=pa.array(column.markers, pa.large_string()))
    bad = pc.and_not(pc.and_(parsed.is_null(), texts.is_valid()), known)
    if (n_bad := pc.sum(bad).as_py() or 0) > 0:
        some = quote_names(texts.filter(bad).unique().to_pylist())
        if parsed.null_count == len(parsed) and not column.text_format:
            raise TableError(f"Column {column.name!r} must hold {words}. Got text: {some}.")
        warnings.warn(
            f"Column {column.name!r} must hold {words}. Got {n_bad} other values, {some}: they "
            "count as missing.",
            UnreadableValueWarning,
            stacklevel=4,
        )
    return pa.chunked_array([parsed])


def _in_seconds(values: pa.ChunkedArray) -> Float64[np.ndarray, " N"]:
    """Return times, dates or durations as seconds, NaN where they are null."""
    dtype = values.type
    if pa.types.is_null(dtype):
        return np.full(len(values), np.nan)
    if pa.types.is_date32(dtype):
        return as_numbers(values.cast(pa.int32())) * 86_400.0
    unit = "ms" if pa.types.is_date64(dtype) else dtype.unit
    integers = values.cast(pa.int32() if dtype.bit_width == 32 else pa.int64())
    return as_numbers(integers) / {"s": 1e0, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit]


def level_codes(
    name: str, values: pa.ChunkedArray, levels: tuple[str, ...], *, warn: bool
) -> tuple[Int64[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """Return the number of each value's level, −1 if there is none, and whether it is missing.

    Args:
        name: Name of the column.
        values: Values of the column.
        levels: The levels, in order.
        warn: Whether to warn of levels that are not among them.
    """
    require_kind(name, values.type, "category")
    texts = as_levels(values)
    places = pc.index_in(texts, value_set=_as_array(levels))
    missing = texts.is_null().to_numpy()
    codes = np.asarray(pc.fill_null(places, -1).to_numpy(), dtype=np.int64)
    unknown = (codes < 0) & ~missing
    if warn and unknown.any():
        some = texts.filter(pa.array(unknown)).unique().to_pylist()
        warnings.warn(
            f"Column {name!r} has levels that the model has not learnt in {unknown.sum()} rows: "
            f"{quote_names(some)}. They count as missing there.",
            UnknownCategoryWarning,
            stacklevel=4,
        )
    return codes, missing


@lru_cache(maxsize=64)
def _as_array(levels: tuple[str, ...]) -> pa.Array:
    """Return levels as an Arrow array, once for all predictions of single rows."""
    return pa.array(levels, pa.large_string())
