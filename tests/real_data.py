"""Real data sets, where they are at hand, split and standardised as every comparison does it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sswim.data.named import FOLDER_VARIABLE, Split
from sswim.data.named import split as split_named
from sswim.rows import Rows, as_rows
from sswim.scaling import learn_scaling

FOLDERS = [
    Path(os.environ.get(FOLDER_VARIABLE, "")),
    Path(__file__).parents[2] / "shared" / "data",
]


def split(name: str, repeat: int) -> Split:
    """Training and test rows of one repeat; the test is skipped where there are none."""
    folder = next((f for f in FOLDERS if (f / f"{name}.parquet").is_file()), None)
    if folder is None:
        pytest.skip(f"{name}.parquet is in none of {FOLDER_VARIABLE} and ../shared/data")
    return split_named(name, repeat, folder)


def standardised(rows: Split) -> tuple[Rows, Rows]:
    """Training and test rows, standardised by the former."""
    train = as_rows(rows.train_x, rows.train_y)
    scaling = learn_scaling(train)
    return scaling.rows(train), scaling.rows(as_rows(rows.test_x, rows.test_y))
