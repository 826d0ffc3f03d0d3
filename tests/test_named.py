"""The named data sets: small tables in their form here, the real ones in test_real_data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sswim.data.named import DATA_SETS, FOLDER_VARIABLE, split


def write(folder: Path, name: str, columns: Mapping[str, Sequence[object]]) -> None:
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


def test_rows_are_permuted_and_cut_at_two_thirds(tmp_path: Path) -> None:
    write(tmp_path, "airfoil", {"a": list(range(10)), "b": list(range(10))})
    rows = split("airfoil", 3, tmp_path)
    order = np.random.RandomState(3).permutation(10)
    assert rows.train_x[:, 0].tolist() == order[:7].tolist() == rows.train_y.tolist()
    assert rows.test_x[:, 0].tolist() == order[7:].tolist() == rows.test_y.tolist()


def test_only_the_training_part_is_used(tmp_path: Path) -> None:
    parts = ["train"] * 6 + ["test"] * 4
    write(tmp_path, "elevators", {"part": parts, "a": list(range(10)), "Goal": list(range(10))})
    rows = split("elevators", 0, tmp_path)
    assert sorted([*rows.train_y, *rows.test_y]) == list(range(6))
    assert rows.train_x.shape == (4, 1)


def test_sex_becomes_two_indicators(tmp_path: Path) -> None:
    write(tmp_path, "abalone", {"Sex": ["M", "F", "I"] * 400, "a": [2] * 1200, "Rings": [1] * 1200})
    rows = split("abalone", 0, tmp_path)
    assert rows.train_x.shape == (1000, 3)
    patterns = {tuple(row) for row in rows.train_x}
    assert patterns == {(1, 0, 2), (0, 1, 2), (0, 0, 2)}


def test_days_become_seconds(tmp_path: Path) -> None:
    days = ["1970-01-01", "1970-01-02", "1970-01-03"]
    write(tmp_path, "bikeshare", {"instant": [1, 2, 3], "dteday": days, "cnt": [0, 1, 2]})
    rows = split("bikeshare", 0, tmp_path)
    assert np.array_equal(rows.train_x[:, 0], 86400 * rows.train_y)


def test_columns_that_are_no_inputs_are_dropped(tmp_path: Path) -> None:
    dropped = ("subject#", "age", "sex", "test_time", "motor_UPDRS")
    write(tmp_path, "parkinsons", {n: [1.0] * 3 for n in (*dropped, "jitter", "total_UPDRS")})
    assert split("parkinsons", 0, tmp_path).train_x.shape == (2, 1)


def test_the_logarithm_is_the_target_of_protein(tmp_path: Path) -> None:
    write(tmp_path, "protein", {"F1": [0.0, 1.0, 2.0], "RMSD": [0.0, 1.0, 2.0]})
    rows = split("protein", 0, tmp_path)
    assert np.allclose(rows.train_y, np.log1p(rows.train_x[:, 0]))


def test_the_folder_may_be_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "concrete", {"a": [1, 2, 3], "b": [1, 2, 3]})
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert len(split("concrete", 0).train_y) == 2


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"creep\.parquet is not there.*SSWIM_DATA"):
        split("creep", 0, tmp_path)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match="A data set must be one of elevators, airfoil"):
        split("boston", 0)
    assert len(DATA_SETS) == 10
