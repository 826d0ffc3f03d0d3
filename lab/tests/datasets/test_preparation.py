"""Preparation of the tables of data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from lab_builders.datasets import write_columns
from sswim_lab.datasets import load, split


def test_only_the_training_part_is_used(tmp_path: Path) -> None:
    parts = ["train"] * 6 + ["test"] * 4
    write_columns(
        tmp_path, "elevators", {"part": parts, "a": list(range(10)), "Goal": list(range(10))}
    )
    rows = split("elevators", 0, tmp_path)
    assert sorted([*rows.train_y, *rows.test_y]) == list(range(6))
    assert rows.train_x.shape == (4, 1)


def test_sex_becomes_two_indicators(tmp_path: Path) -> None:
    write_columns(
        tmp_path, "abalone", {"Sex": ["M", "F", "I"] * 400, "a": [2] * 1200, "Rings": [1] * 1200}
    )
    rows = split("abalone", 0, tmp_path)
    assert rows.train_x.shape == (1000, 3)
    patterns = {tuple(row) for row in rows.train_x}
    assert patterns == {(1, 0, 2), (0, 1, 2), (0, 0, 2)}


def test_days_become_seconds(tmp_path: Path) -> None:
    days = ["1970-01-01", "1970-01-02", "1970-01-03"]
    write_columns(tmp_path, "bikeshare", {"instant": [1, 2, 3], "dteday": days, "cnt": [0, 1, 2]})
    rows = split("bikeshare", 0, tmp_path)
    assert np.array_equal(rows.train_x[:, 0], 86400 * rows.train_y)


def test_columns_that_are_no_inputs_are_dropped(tmp_path: Path) -> None:
    dropped = ("subject#", "age", "sex", "test_time", "motor_UPDRS")
    write_columns(
        tmp_path, "parkinsons", {n: [1.0] * 3 for n in (*dropped, "jitter", "total_UPDRS")}
    )
    assert split("parkinsons", 0, tmp_path).train_x.shape == (2, 1)


def test_the_logarithm_is_the_target_of_protein(tmp_path: Path) -> None:
    write_columns(tmp_path, "protein", {"F1": [0.0, 1.0, 2.0], "RMSD": [0.0, 1.0, 2.0]})
    rows = split("protein", 0, tmp_path)
    assert np.allclose(rows.train_y, np.log1p(rows.train_x[:, 0]))


def test_the_logarithm_is_the_target_of_buzz(tmp_path: Path) -> None:
    write_columns(tmp_path, "buzz", {"NAD_0": [0, 1, 2], "Mean_NAD": [0, 1, 2]})
    table = load("buzz", tmp_path)
    assert np.allclose(table.y, np.log1p([0, 1, 2]))
    assert (table.inputs, table.target) == (("NAD_0",), "log(1 + Mean_NAD)")


def test_patients_and_constants_are_no_inputs_of_ct_slice(tmp_path: Path) -> None:
    numbers = [1, 2], [0.5, 0.5], [0, 1], [3, 3]
    names = ("patientId", "value0", "value1", "reference")
    write_columns(tmp_path, "ct_slice", dict(zip(names, numbers, strict=True)))
    table = load("ct_slice", tmp_path)
    assert (table.inputs, table.target) == (("value1",), "reference")
    assert table.x.tolist() == [[0], [1]]
    assert table.y.tolist() == [3, 3]


def test_the_date_is_no_input_of_maunaloa_co2(tmp_path: Path) -> None:
    names = ("date", "decimal_year", "co2")
    values = ["1958-03-29", "1958-04-05"], [1958.24, 1958.26], [316.1, 317.3]
    write_columns(tmp_path, "maunaloa_co2", dict(zip(names, values, strict=True)))
    table = load("maunaloa_co2", tmp_path)
    assert (table.inputs, table.target) == (("decimal_year",), "co2")
    assert table.x.tolist() == [[1958.24], [1958.26]]


def test_flights_have_only_inputs_known_before_their_day(tmp_path: Path) -> None:
    columns: dict[str, Sequence[object]] = {
        **{"year": [2013] * 3, "month": [1, 3, 12], "day": [1, 1, 31]},
        **{"dep_time": [1, 2, 3], "dep_delay": [1, 2, 3], "arr_time": [1, 2, 3]},
        **{"sched_dep_time": [515, 1345, 2359], "sched_arr_time": [819, 1, 1200]},
        **{"carrier": ["9E", "AA", "YV"], "origin": ["EWR", "JFK", "LGA"]},
        **{"dest": ["IAH", "ATL", "ATL"], "distance": [1400, 760, 760]},
        **{"tailnum": ["N1", "N2", "N3"], "arr_delay": [11, 20, -18]},
    }
    write_columns(tmp_path, "nycflights13", columns)
    table = load("nycflights13", tmp_path)
    days, clocks = ("day_of_year", "weekday"), ("sched_dep_time", "sched_arr_time")
    assert table.inputs[:6] == (*days, *clocks, "distance", "dest")
    assert table.inputs[6:9] == ("origin_JFK", "origin_LGA", "carrier_AA")
    assert table.x[:, :6].tolist() == [
        [1, 1, 5 * 60 + 15, 8 * 60 + 19, 1400, 1],  # a Tuesday
        [60, 4, 13 * 60 + 45, 1, 760, 0],
        [365, 1, 23 * 60 + 59, 12 * 60, 760, 0],
    ]
    indicators = table.x[:, 6:]
    assert indicators.sum(axis=1).tolist() == [0, 2, 2]  # the first levels have none
    assert indicators[2, [1, -1]].tolist() == [1, 1]
    assert table.y.tolist() == [11, 20, -18]
