"""Real data sets, where they are at hand, split and standardised as every comparison does it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sswim.rows import Rows, as_rows

FOLDERS = [
    Path(os.environ.get("SSWIM_DATA", "")),
    Path(__file__).parents[2] / "shared" / "data",
]


def split(name: str, repeat: int) -> tuple[Rows, Rows]:
    """Training and test rows of one repeat; the target is the last column."""
    found = [folder / f"{name}.parquet" for folder in FOLDERS]
    path = next((path for path in found if path.is_file()), None)
    if path is None:
        pytest.skip(f"{name}.parquet is in none of SSWIM_DATA and ../shared/data")
    columns = pq.read_table(path).columns
    table = np.column_stack([column.to_numpy().astype(np.float64) for column in columns])
    order = np.random.RandomState(repeat).permutation(len(table))
    train, test = np.split(table[order], [round(2 * len(table) / 3)])
    mean, spread = train.mean(0), train.std(0)
    train, test = (train - mean) / spread, (test - mean) / spread
    return as_rows(train[:, :-1], train[:, -1]), as_rows(test[:, :-1], test[:, -1])
