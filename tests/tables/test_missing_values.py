from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from builders.tables import gaps, houses

from sswim.tables import TableError, complete_rows, keep_rows
from sswim.tables.levels import TELLING_ROWS, TELLING_SHARE, is_telling
from sswim.tables.table_rows import missing_counts, require_any_complete
from sswim.tables.values import missing_values


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, np.nan, None, 4.0]),
        pa.array([1.0, np.nan, None, 4.0], pa.float32()),
        pa.array([1.0, np.nan, None, 4.0], pa.float16()),
        pa.array([1, None, None, 4]),
        pa.array(["a", None, None, ""]),
        pa.array(["a", None, None, "b"]).dictionary_encode(),
        pa.array([1, None, None, 4], pa.timestamp("us", "UTC")),
    ],
    ids=lambda values: str(values.type),
)
def test_nulls_and_nans_are_missing(values: pa.Array) -> None:
    found = missing_values(pa.chunked_array([values]))
    assert found.to_pylist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("n_missing", "n_rows", "expected"),
    [(0, 10, False), (19, 20, False), (20, 20, True), (20, 2000, True), (20, 2001, False)],
)
def test_missing_values_are_telling_if_there_are_many(
    n_missing: int, n_rows: int, expected: bool
) -> None:
    assert (TELLING_ROWS, TELLING_SHARE) == (20, 0.01)
    assert is_telling(n_missing, n_rows) == expected


def test_missing_values_are_counted() -> None:
    counts = missing_counts(gaps(), gaps().column_names)
    assert counts == {"f": 2, "i": 1, "s": 1, "d": 1, "n": 4}
    assert missing_counts(gaps(), ["y"]) == {}
    with pytest.raises(TableError, match="must have columns 'z'"):
        missing_counts(gaps(), ["z"])


def test_incomplete_rows_are_found_and_left_out() -> None:
    complete = complete_rows(gaps(), ["f", "d"])
    assert complete.tolist() == [True, False, False, True]
    assert keep_rows(gaps(), complete).equals(gaps().take([0, 3]))
    everything = complete_rows(houses(), houses().column_names)
    assert everything.all()
    assert keep_rows(houses(), everything).equals(houses())


def test_leaving_out_every_row_is_refused() -> None:
    with pytest.raises(TableError, match=r"one row must be complete.*'n' \(4 rows\), in.*--drop"):
        require_any_complete(0, gaps(), ["y", "n"])
    require_any_complete(1, gaps(), ["y", "n"])


def test_a_type_whose_rows_cannot_be_left_out_is_refused() -> None:
    lists = pa.array([["a"], ["b"]], pa.list_(pa.string_view()))
    table = pa.table({"x": lists, "y": [1.0, None]})
    with pytest.raises(TableError, match="cannot be left out"):
        keep_rows(table, complete_rows(table, ["y"]))
