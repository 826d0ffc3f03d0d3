"""The rows of a report: those given or a random sample of them, and what charts draw of them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Float64, Int64
from sklearn.utils.validation import check_is_fitted

from sswim.base.validation import UserError
from sswim.estimator.base import BaseRegressor
from sswim.estimator.inputs import check_rows
from sswim.report.charts import Axis
from sswim.rows import Measure
from sswim.rows.summary import smallest_keys
from sswim.tables import (
    Column,
    Schema,
    TableSample,
    TimeColumn,
    UnknownCategoryWarning,
    UnreadableValueWarning,
    as_levels,
    sample_table,
)

MAX_LEVELS = 12
"""Largest number of levels in a chart; if there are more, the rarest are one."""


@dataclass(frozen=True)
class ReportRows:
    """Rows with known targets, as the model and as the reader see them."""

    given: pa.Table | Float64[np.ndarray, "N D"]
    """The inputs as they were given."""
    inputs: Measure
    """The inputs as the model reads them: numbers, without gaps."""
    targets: Float64[np.ndarray, " N"]
    columns: tuple[ReportColumn, ...]
    numbers: Int64[np.ndarray, " N"]
    """Numbers of the rows within all that were given, counted from 0."""
    n_rows: int
    """Number of rows that were given, of which these may be a sample."""
    target: str
    """Name of the target."""

    def __len__(self) -> int:
        return len(self.targets)


def report_rows(
    regressor: BaseRegressor, X: Any, y: Any, *, max_rows: int, random_state: int
) -> ReportRows:
    """Return rows in any form that the estimator reads, a random sample if they are many.

    Args:
        regressor: A fitted estimator of one target.
        X: Inputs: an array, a data frame, or the path of a table.
        y: Targets, or the name of the target column of a frame or table.
        max_rows: Largest number of rows.
        random_state: Seed of the sample.
    """
    check_is_fitted(regressor)
    if regressor.n_targets_ != 1:
        raise UserError(
            f"A report is about one target. Got a model of {regressor.n_targets_}; fit one model "
            "for each target."
        )
    reader = regressor._reader
    schema: Schema | None = reader.schema
    if isinstance(X, str | os.PathLike) and schema is not None:
        if not isinstance(y, str):
            raise UserError(f"The target of a table must be the name of a column. Got {y!r}.")
        named = replace(schema, target=y)
        sample = sample_table(named, Path(X), max_rows, random_state=random_state)
        return table_report_rows(regressor, sample, y)
    target = getattr(y, "name", None)  # of a series
    if isinstance(y, str):
        target = y
        X, y = reader.split_target(X, y)
    given = reader.encode(regressor, X) if schema is None else reader.read_table(X)
    encoded = given if schema is None else schema.encode(given)
    rows = check_rows(regressor, reader.impute(encoded), y)
    n_rows = len(rows)
    chosen = smallest_keys(np.arange(n_rows), max_rows, random_state)
    given = given[chosen] if schema is None else given.take(chosen)
    columns = _columns(regressor, given, encoded[chosen])
    rows = rows.take(torch.from_numpy(chosen))
    targets = rows.targets[:, 0].numpy()
    if not isinstance(target, str) or not target:
        target = (schema.target if schema is not None else "") or "target"
    return ReportRows(given, rows.inputs, targets, columns, chosen, n_rows, target)


def table_report_rows(regressor: BaseRegressor, sample: TableSample, target: str) -> ReportRows:
    """Return the rows of a sample of a table.

    Args:
        regressor: An estimator of one target that was fitted to a table.
        sample: The rows.
        target: Name of the target.
    """
    reader, rows = regressor._reader, sample.rows
    encoded = reader.encode(regressor, rows.table)
    return ReportRows(
        rows.table,
        reader.impute(encoded),
        rows.targets[:, 0],
        _columns(regressor, rows.table, encoded),
        rows.numbers,
        sample.n_rows,
        target,
    )


@contextmanager
def warned_values() -> Iterator[None]:
    """Silence warnings of values that the model cannot read, after they have been given once.

    A report encodes the rows again where it shuffles their columns.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        warnings.simplefilter("ignore", UnreadableValueWarning)
        yield


@dataclass(frozen=True)
class ReportColumn:
    """A column of the rows of a report: numbers to draw, and texts to show."""

    name: str
    kind: str
    """Kind of the column in the model: number, time, hours of a day, category or levels."""
    numbers: Float64[np.ndarray, " N"]
    """Numbers, seconds since 1970, or places of levels; NaN where there is none."""
    texts: pa.Array | pa.ChunkedArray
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
        value = self.texts[row].as_py()
        if value is None or (isinstance(value, float) and np.isnan(value)):
            return ""
        return f"{value:.6g}" if isinstance(value, float) else str(value)


def _columns(
    regressor: BaseRegressor, given: Any, encoded: Float64[np.ndarray, "N D"]
) -> tuple[ReportColumn, ...]:
    """Return the columns that a model uses, given its rows before and after they were encoded."""
    schema = regressor._reader.schema
    if schema is None:
        names = getattr(regressor, "feature_names_in_", None)
        names = [f"x{place}" for place in range(encoded.shape[1])] if names is None else names
        return tuple(
            ReportColumn(str(name), "number", values, pa.array(values))
            for name, values in zip(names, encoded.T, strict=True)
        )
    with warned_values():
        return tuple(
            _table_column(
                column, given.column(column.name), encoded[:, schema.inputs_of(column.name)]
            )
            for column in schema.columns
            if column.kind != "ignored"
        )


def _table_column(
    column: Column, values: pa.ChunkedArray, inputs: Float64[np.ndarray, "N d"]
) -> ReportColumn:
    """Return a column of a table, given its values and the inputs that they became."""
    if column.kind in ("category", "levels"):
        texts = as_levels(values)
        numbers, levels = _level_places(texts)
        return ReportColumn(column.name, column.kind, numbers, texts, levels)
    if isinstance(column, TimeColumn) and column.is_time_of_day:
        # Its inputs are the cosine and sine of the time of day, whose angle is that time.
        cosine, sine = inputs[:, :2].T
        hours = np.mod(np.arctan2(sine, cosine) * 12 / np.pi, 24.0)
        return ReportColumn(column.name, "hours", hours, values)
    if not inputs.shape[1]:  # longitude and latitude are inputs together, but not alone
        inputs = column.encode(values)
    return ReportColumn(column.name, column.kind, inputs[:, 0], values)


def _level_places(texts: pa.ChunkedArray) -> tuple[Float64[np.ndarray, " N"], tuple[str, ...]]:
    """Return the place of each level, and the names of the places, the most common first."""
    counts = pc.value_counts(texts.drop_null()).to_pylist()
    counts.sort(key=lambda level: (-level["counts"], level["values"]))
    levels = [level["values"] for level in counts]
    levels = levels if len(levels) <= MAX_LEVELS else levels[: MAX_LEVELS - 1]
    indices = pc.index_in(texts, value_set=pa.array(levels, pa.large_string()))
    places = np.array(pc.fill_null(indices, -1).to_numpy(), dtype=np.float64)
    missing = texts.is_null().to_numpy()
    for name, rows in (("all others", (places < 0) & ~missing), ("missing", missing)):
        if rows.any():
            places[rows] = len(levels)
            levels.append(name)
    return places, tuple(levels)
