"""Training and test rows by the name of a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from lab_builders.bench import write_set
from sswim_lab.bench.accuracy import SYNTHETIC, load_split
from sswim_lab.datasets import split


def test_synthetic_rows_need_no_file_and_differ_by_repeat(tmp_path: Path) -> None:
    first, again, other = (load_split(SYNTHETIC, repeat, str(tmp_path)) for repeat in (0, 0, 1))
    assert (first.train_x.shape, first.test_x.shape) == ((300, 3), (150, 3))
    assert (first.train_y.shape, first.test_y.shape) == ((300,), (150,))
    assert np.array_equal(first.train_y, again.train_y)
    assert not np.array_equal(first.train_y, other.train_y)
    assert not np.isin(first.test_x, first.train_x).any()


def test_other_names_are_those_of_data_sets(tmp_path: Path) -> None:
    write_set(tmp_path, "airfoil")
    rows, expected = load_split("airfoil", 2, str(tmp_path)), split("airfoil", 2, tmp_path)
    assert np.array_equal(rows.train_x, expected.train_x)
    assert np.array_equal(rows.test_y, expected.test_y)
