"""The columns of the rows of a report: numbers to draw, and texts to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float64, Int64

from sswim.plotting.charts import Axis
from sswim.tables.columns import Column, TimeColumn
from sswim.tables.levels import as_levels
from sswim.tables.schema import Schema

MAX_LEVELS = 12
"""Largest number of levels that a chart tells apart; the rarest of more are one."""

OTHER = "all others"
MISSING = "missing"
_LEVEL_KINDS = ("category", "levels")


@dataclass(frozen=True)
class ReportColumn:
    """A column of the rows of a report."""

    name: str
    kind: str
    """Kind of the column in the model: number, time, hours of a day, category or levels."""
    numbers: Float64[np.ndarray, " N"]
    """Numbers, seconds since 1970, or places of levels; NaN where there is none."""
    texts: pa.ChunkedArray | list[float]
    """The values themselves, for tables."""
    levels: tuple[str, ...] | None = None

    @property
    def axis(self) -> Axis:
        """The axis of a chart for this column."""
        return Axis(self.name, levels=self.levels, time=self.kind == "time")

    def places(self, rows: Int64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """Return where rows are drawn: levels are spread a little, so that rows stay apart."""
        places = self.numbers[rows]
        if self.levels is None:
            return places
        # A fixed sequence of golden steps fills the width evenly, and is the same every time.
        return places + 0.6 * (np.mod(np.arange(len(rows)) * 0.61803398875, 1.0) - 0.5)

    def text(self, row: int) -> str:
        """Return a value as the text of a cell."""
        value = self.texts[row]
        value = value.as_py() if isinstance(value, pa.Scalar) else value
        if value is None or (isinstance(value, float) and np.isnan(value)):
            return ""
        return f"{value:.6g}" if isinstance(value, float) else str(value)


def array_columns(inputs: Float64[np.ndarray, "N D"], names: Sequence[str]) -> list[ReportColumn]:
    """Return the columns of an array of numbers."""
    return [
        ReportColumn(name, "number", values, values.tolist())
        for name, values in zip(names, inputs.T, strict=True)
    ]


def table_columns(table: pa.Table, schema: Schema) -> list[ReportColumn]:
    """Return the columns of a table that a model uses."""
    return [
        _table_column(column, table.column(column.name))
        for column in schema.columns
        if column.kind != "ignored"
    ]


def _table_column(column: Column, values: pa.ChunkedArray) -> ReportColumn:
    if column.kind in _LEVEL_KINDS:
        texts = as_levels(values)
        numbers, levels = _level_places(texts)
        return ReportColumn(column.name, column.kind, numbers, texts, levels)
    if isinstance(column, TimeColumn) and column.is_time_of_day:
        # Its inputs are the cosine and sine of the time of day, whose angle is that time.
        cosine, sine = column.encode(values)[:, :2].T
        hours = np.mod(np.arctan2(sine, cosine) * 12 / np.pi, 24.0)
        return ReportColumn(column.name, "hours", hours, values)
    return ReportColumn(column.name, column.kind, column.encode(values)[:, 0], values)


def _level_places(texts: pa.ChunkedArray) -> tuple[Float64[np.ndarray, " N"], tuple[str, ...]]:
    """Return the place of each level, and the names of the places, the most common first."""
    counts = pc.value_counts(texts.drop_null()).to_pylist()
    counts.sort(key=lambda each: (-each["counts"], each["values"]))
    names = [each["values"] for each in counts]
    levels = names if len(names) <= MAX_LEVELS else names[: MAX_LEVELS - 1]
    found = pc.index_in(texts, value_set=pa.array(levels, pa.large_string()))
    places = np.array(pc.fill_null(found, -1).to_numpy(), dtype=np.float64)
    missing = texts.is_null().to_numpy()
    shown = list(levels)
    others = (places < 0) & ~missing
    if others.any():
        places[others] = len(shown)
        shown.append(OTHER)
    if missing.any():
        places[missing] = len(shown)
        shown.append(MISSING)
    return places, tuple(shown)
