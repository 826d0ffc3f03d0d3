"""Loading and splitting data sets, also damaged ones; test_catalogue.py uses the real files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from lab_builders.datasets import write_columns
from sswim_lab.datasets import DATA_SETS, FOLDER_VARIABLE, load, split

Columns = Mapping[str, Sequence[object]]
FLIGHT: Columns = {
    **{"year": [2013], "month": [1], "day": [1], "sched_dep_time": [1], "sched_arr_time": [1]},
    **{"carrier": ["AA"], "origin": ["EWR"], "dest": ["IAH"], "distance": [1], "arr_delay": [1]},
}


def test_rows_are_permuted_and_cut_at_two_thirds(tmp_path: Path) -> None:
    write_columns(tmp_path, "airfoil", {"a": list(range(10)), "b": list(range(10))})
    rows = split("airfoil", 3, tmp_path)
    order = np.random.RandomState(3).permutation(10)
    assert rows.train_x[:, 0].tolist() == order[:7].tolist() == rows.train_y.tolist()
    assert rows.test_x[:, 0].tolist() == order[7:].tolist() == rows.test_y.tolist()


def test_all_rows_are_loaded_in_their_order(tmp_path: Path) -> None:
    write_columns(tmp_path, "airfoil", {"a": [3, 1, 2], "b": [0.5, 1.5, 2.5]})
    table = load("airfoil", tmp_path)
    assert table.x.tolist() == [[3], [1], [2]]
    assert table.y.tolist() == [0.5, 1.5, 2.5]
    assert (table.inputs, table.target) == (("a",), "b")


def test_the_folder_may_be_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_columns(tmp_path, "concrete", {"a": [1, 2, 3], "b": [1, 2, 3]})
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    assert len(split("concrete", 0).train_y) == 2


def test_a_missing_file_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"creep\.parquet does not exist.*SSWIM_DATA"):
        split("creep", 0, tmp_path)


def test_an_unknown_data_set_raises_an_error() -> None:
    with pytest.raises(ValueError, match="A data set must be one of elevators, airfoil"):
        split("boston", 0)
    assert len(DATA_SETS) == 21


def test_an_unknown_protocol_raises_an_error(tmp_path: Path) -> None:
    write_columns(tmp_path, "airfoil", {"a": [1, 2, 3], "b": [1, 2, 3]})
    named, default = (split("airfoil", 0, tmp_path, **p) for p in ({"protocol": "paper"}, {}))
    assert np.array_equal(named.train_x, default.train_x)
    with pytest.raises(ValueError, match=r"A protocol must be one of paper\. Got 'all'"):
        split("airfoil", 0, tmp_path, "all")


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
    write_columns(tmp_path, name, columns)
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
    write_columns(tmp_path, name, {**parts, "a": values[kept], "b": values[kept]})
    with pytest.raises(ValueError, match=f"{name}.*must have training and test rows. {message}"):
        split(name, 0, tmp_path)
