"""Columns of reports: numbers to draw and texts to show."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from sswim.report.rows import MAX_LEVELS, table_columns
from sswim.tables import CategoryColumn, IgnoredColumn, NumberColumn, Schema, TimeColumn

TIMES = [datetime.time(0), datetime.time(6), datetime.time(18, 30)]
DATES = [datetime.datetime(2024, 1, 1), None, datetime.datetime(2024, 1, 3)]
TABLE = pa.table(
    {
        "number": [1.5, None, 3.0],
        "level": ["a", None, "b"],
        "time": pa.array(TIMES, pa.time64("us")),
        "date": pa.array(DATES, pa.timestamp("us")),
        "none": ["x", "y", "z"],
    }
)
SCHEMA = Schema(
    "y",
    (
        NumberColumn("number", has_missing=True),
        CategoryColumn("level", has_missing=True, levels=("a", "b")),
        TimeColumn("time", cycles=("day",), is_time_of_day=True),
        TimeColumn("date", has_missing=True, cycles=("week",)),
        IgnoredColumn("none"),
    ),
)


def test_columns_are_numbers_levels_and_times() -> None:
    number, level, time, date = table_columns(TABLE, SCHEMA)
    assert number.numbers == pytest.approx([1.5, np.nan, 3.0], nan_ok=True)
    assert level.levels == ("a", "b", "missing")
    assert level.numbers.tolist() == [0, 2, 1]
    assert time.numbers == pytest.approx([0, 6, 18.5])
    assert date.axis.time
    assert date.numbers[2] - date.numbers[0] == 2 * 86_400
    assert [each.text(1) for each in (number, level, date)] == ["", "", ""]
    assert [each.text(2) for each in (number, level, time, date)] == [
        "3",
        "b",
        "18:30:00",
        "2024-01-03 00:00:00",
    ]


def test_rare_levels_are_one() -> None:
    names = [f"level {number}" for number in range(20) for _ in range(30 - number)]
    schema = Schema("y", (CategoryColumn("level", levels=tuple(sorted(set(names)))),))
    [column] = table_columns(pa.table({"level": names}), schema)
    assert column.levels is not None
    assert len(column.levels) == MAX_LEVELS
    assert column.levels[0] == "level 0"
    assert column.levels[-1] == "all others"
    assert (column.numbers == MAX_LEVELS - 1).sum() == sum(30 - number for number in range(11, 20))


def test_rows_of_a_level_are_drawn_side_by_side() -> None:
    schema = Schema("y", (CategoryColumn("level", levels=("a",)),))
    [column] = table_columns(pa.table({"level": ["a"] * 50}), schema)
    places = column.places(np.arange(50))
    assert np.abs(places).max() <= 0.3
    assert len(np.unique(places)) == 50
    [plain] = table_columns(pa.table({"x": [0.0, 1, 2]}), Schema("y", (NumberColumn("x"),)))
    assert plain.places(np.array([2, 0])).tolist() == [2, 0]
    assert plain.text(2) == "2"
