"""The one way in: arrays, tables and sources become a source of rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator

from sswim.base.errors import UserError
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator.input_checks import as_numpy, check_rows
from sswim.rows.memory_source import MemorySource
from sswim.rows.source import Source


def as_source(
    estimator: BaseEstimator,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    X_std: Any = None,
    *,
    dtype: torch.dtype,
    processes: Processes = ALONE,
) -> Source:
    """Return the arguments of ``fit`` as a source of rows.

    Args:
        estimator: The estimator that is fitted.
        X: Inputs, the path of a table, or a source.
        y: Targets, the name of the table's target column, or None for a source.
        sample_weight: How many times each row of arrays counts.
        X_std: Known standard deviation of the inputs of arrays.
        dtype: Precision of the inputs of arrays.
        processes: The processes that fit together.
    """
    if not isinstance(X, Source | str | os.PathLike):
        rows = check_rows(estimator, X, y, sample_weight, X_std, dtype=dtype, reset=True)
        names = getattr(estimator, "feature_names_in_", None)
        names = None if names is None else names.tolist()
        return MemorySource(rows, names, flat_targets=np.asarray(as_numpy(y)).ndim == 1)
    if sample_weight is not None or X_std is not None:
        raise UserError(
            "sample_weight and X_std belong to arrays. Got them together with a table or a source, "
            "whose chunks may have weights and input variances of their own."
        )
    if isinstance(X, Source):
        if y is not None:
            raise UserError("A source has its own targets. Got y together with a source.")
        return X
    if not isinstance(y, str):
        raise UserError(f"The target of a table must be the name of a column. Got {y!r}.")
    from sswim.tables.table_source import open_source  # noqa: PLC0415 (it loads pyarrow)

    return open_source(Path(X), y, processes=processes)
