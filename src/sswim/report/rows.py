"""The rows of a report: those given, or a random sample of them."""

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
import torch
from jaxtyping import Float64, Int64
from sklearn.utils.validation import check_is_fitted

from sswim.base.errors import UserError
from sswim.estimator.input_checks import as_numpy, check_rows
from sswim.estimator.regressor import SSWIMRegressor
from sswim.report.columns import ReportColumn, array_columns, table_columns
from sswim.rows.row_sample import smallest_keys
from sswim.tables.columns import UnreadableValueWarning
from sswim.tables.levels import UnknownCategoryWarning
from sswim.tables.schema import Schema
from sswim.tables.table_sample import TableSample, sample_table


@dataclass(frozen=True)
class ReportRows:
    """Rows with known targets, as the model and as the reader see them."""

    inputs: pa.Table | Float64[np.ndarray, "N D"]
    """What the model predicts from."""
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
    regressor: SSWIMRegressor, X: Any, y: Any, *, max_rows: int, random_state: int
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
    schema: Schema | None = regressor._reader.schema
    if isinstance(X, str | os.PathLike) and schema is not None:
        if not isinstance(y, str):
            raise UserError(f"The target of a table must be the name of a column. Got {y!r}.")
        named = replace(schema, target=y)
        sample = sample_table(named, Path(X), max_rows, random_state=random_state)
        return table_report_rows(named, sample)
    name = y if isinstance(y, str) else _target_name(y, schema)
    if isinstance(y, str):
        X, y = regressor._reader.split_target(X, y)
    rows = check_rows(regressor, X, y, dtype=torch.float64, reset=False)
    X = np.asarray(as_numpy(X)) if schema is None else regressor._reader.read_table(X)
    chosen = smallest_keys(np.arange(len(rows)), max_rows, random_state)
    inputs = X[chosen] if schema is None else X.take(chosen)
    columns = _columns(regressor, inputs, schema)
    targets = rows.targets[:, 0].numpy()[chosen]
    return ReportRows(inputs, targets, columns, chosen, len(rows), name)


def table_report_rows(schema: Schema, sample: TableSample) -> ReportRows:
    """Return the rows of a sample of a table."""
    rows = sample.rows
    schema.encode(rows.table)  # tells which values the model cannot read
    columns = _columns_of_table(rows.table, schema)
    return ReportRows(
        rows.table, rows.targets[:, 0], columns, rows.numbers, sample.n_rows, schema.target
    )


def _columns(
    regressor: SSWIMRegressor, inputs: Any, schema: Schema | None
) -> tuple[ReportColumn, ...]:
    if schema is not None:
        return _columns_of_table(inputs, schema)
    names = getattr(regressor, "feature_names_in_", None)
    if names is None:
        names = [f"x{place}" for place in range(inputs.shape[1])]
    return tuple(array_columns(np.asarray(inputs, dtype=np.float64), [str(name) for name in names]))


def _columns_of_table(table: pa.Table, schema: Schema) -> tuple[ReportColumn, ...]:
    with told_values():
        return tuple(table_columns(table, schema))


@contextmanager
def told_values() -> Iterator[None]:
    """Silence warnings of values that the model cannot read, after they have been told once.

    A report predicts the same rows many times.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        warnings.simplefilter("ignore", UnreadableValueWarning)
        yield


def _target_name(y: Any, schema: Schema | None) -> str:
    """Return the name of targets: that of their column, or that of the fit."""
    name = getattr(y, "name", None)
    if isinstance(name, str) and name:
        return name
    return (schema.target if schema is not None else "") or "target"
