"""Unusable files of data sets: the error names the file and its defect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sswim.lab.datasets import load, split

Columns = Mapping[str, Sequence[object]]
FLIGHT: Columns = {
    **{"year": [2013], "month": [1], "day": [1], "sched_dep_time": [1], "sched_arr_time": [1]},
    **{"carrier": ["AA"], "origin": ["EWR"], "dest": ["IAH"], "distance": [1], "arr_delay": [1]},
}


def write(folder: Path, name: str, columns: Columns) -> None:
    pq.write_table(pa.table(columns), folder / f"{name}.parquet")


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("elevators", {"a": [1], "Goal": [1]}, r"must have columns 'part'\. Got 'a', 'Goal'"),
        ("parkinsons", {"age": [1], "total_UPDRS": [1]}, "must have columns 'subject#', 'sex'"),
        ("bikeshare", {"instant": [1], "cnt": [1]}, "must have columns 'dteday'"),
        ("bikeshare", {"instant": [1], "dteday": ["1 May"], "cnt": [1]}, "1 May"),
        ("bikeshare", {"instant": [1], "dteday": [1.5], "cnt": [1]}, "strptime"),
        ("abalone", {"a": [1], "Rings": [1]}, "must have columns 'Sex'"),
        ("abalone", {"Sex": ["F", "?"], "a": [1, 2], "Rings": [1, 2]}, r"hold F, I, M\. Got '\?'"),
        ("nycflights13", {"year": [2013], "arr_delay": [1]}, "must have columns 'month', 'day'"),
        ("nycflights13", {**FLIGHT, "origin": ["LHR"]}, r"hold EWR, JFK, LGA\. Got 'LHR'"),
        (
            "airfoil",
            {"a": ["1", "x"], "b": [1, 2]},
            "Column 'a' must hold numbers. Got type string",
        ),
        (
            "airfoil",
            {"a": [1, None], "b": [1, 2]},
            "No value may be missing. Got missing values in",
        ),
        ("airfoil", {"a": [1, 2], "b": [1, np.inf]}, "must be finite. Got 1 in column 'b'"),
        ("airfoil", {"a": [np.nan, np.nan], "b": [1, 2]}, "must be finite. Got 2 in column 'a'"),
        ("protein", {"a": [1, 2], "RMSD": [1, -1]}, r"finite. Got 1 in column 'log\(1 \+ RMSD\)'"),
        ("airfoil", {"b": [1, 2]}, "There must be an input and a target. Got columns 'b'"),
        ("airfoil", {"a": [], "b": []}, "A table must have at least one row"),
    ],
)
def test_a_table_with_wrong_columns_raises_an_error(
    tmp_path: Path, name: str, columns: Columns, message: str
) -> None:
    write(tmp_path, name, columns)
    with pytest.raises(ValueError, match=message) as caught:
        load(name, tmp_path)
    assert str(tmp_path / f"{name}.parquet") in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no table", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_file_that_is_no_parquet_raises_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "creep.parquet"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"creep\.parquet' cannot be read as \.parquet"):
        load("creep", tmp_path)


@pytest.mark.parametrize(
    ("name", "n_rows", "message"),
    [
        ("creep", 800, "Got 800 rows, of which 800 would"),
        ("airfoil", 1, "Got 1 rows, of which 1 would"),
        ("ailerons", 5, "Got 5 rows, of which 1003 would"),
        ("elevators", 0, "Got 0 rows, of which 0 would"),
    ],
)
def test_too_few_rows_raise_an_error(tmp_path: Path, name: str, n_rows: int, message: str) -> None:
    values = list(range(n_rows + 1))
    parts = {"part": ["train"] * n_rows + ["test"]} if name in ("elevators", "ailerons") else {}
    kept = slice(None) if parts else slice(n_rows)
    write(tmp_path, name, {**parts, "a": values[kept], "b": values[kept]})
    with pytest.raises(ValueError, match=f"{name}.*must have training and test rows. {message}"):
        split(name, 0, tmp_path)
