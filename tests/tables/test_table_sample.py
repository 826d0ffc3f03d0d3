"""Random samples of tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sswim.tables import LeftOut, NumberColumn, Schema, TableError, sample_table

SCHEMA = Schema("y", (NumberColumn("x"),))
N_ROWS = 3000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    numbers = np.arange(N_ROWS, dtype=float)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": numbers, "y": -numbers}), path, row_group_size=500)
    return path


def test_a_small_table_is_whole(path: Path) -> None:
    found = sample_table(SCHEMA, path, N_ROWS)
    assert found.rows.numbers.tolist() == list(range(N_ROWS))
    assert found.n_rows == N_ROWS
    assert found.n_left_out == 0


def test_a_sample_has_rows_as_they_are_and_depends_on_its_seed_alone(path: Path) -> None:
    first = sample_table(SCHEMA, path, 100, random_state=1)
    again = sample_table(SCHEMA, path, 100, random_state=1, memory=10**9)
    other = sample_table(SCHEMA, path, 100, random_state=2)
    numbers = first.rows.numbers
    assert len(numbers) == 100
    assert first.n_rows == N_ROWS
    assert first.rows.table.column("x").to_pylist() == numbers.tolist()
    assert first.rows.targets[:, 0].tolist() == (-numbers).tolist()
    assert np.array_equal(numbers, again.rows.numbers)
    assert len(np.intersect1d(numbers, other.rows.numbers)) < 20
    assert 1200 < numbers.mean() < 1800


def test_rows_that_are_left_out_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "gaps.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, None], "y": [1.0, None, 3.0]}), path)
    found = sample_table(SCHEMA, path, 5, left_out=LeftOut(target_missing=True))
    assert (found.n_rows, found.n_left_out) == (2, 1)
    empty = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"x": [1.0], "y": pa.array([None], pa.float64())}), empty)
    with pytest.raises(TableError, match="At least one row"):
        sample_table(SCHEMA, empty, 5, left_out=LeftOut(target_missing=True))
