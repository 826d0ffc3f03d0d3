"""Real data sets, where they are at hand, split and standardised as every comparison does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sswim.data.folders import find, folders
from sswim.data.named import Split
from sswim.data.named import split as split_named
from sswim.rows import Rows, as_rows
from sswim.scaling import learn_scaling


def at_hand(name: str) -> Path:
    """The file of a data set; the test is skipped where there is none, and nothing downloaded."""
    path = find(name)
    if path is None:
        pytest.skip(f"{name}.parquet is in none of {', '.join(map(str, folders()))}")
    return path


def split(name: str, repeat: int) -> Split:
    """Training and test rows of one repeat."""
    return split_named(name, repeat, at_hand(name).parent)


def standardised(rows: Split) -> tuple[Rows, Rows]:
    """Training and test rows, standardised by the former."""
    train = as_rows(rows.train_x, rows.train_y)
    scaling = learn_scaling(train)
    return scaling.rows(train), scaling.rows(as_rows(rows.test_x, rows.test_y))
