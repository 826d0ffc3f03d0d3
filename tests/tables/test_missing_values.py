from __future__ import annotations

import pyarrow as pa
import pytest
from builders.tables import gaps, houses

from sswim.tables.missing_values import (
    drop_incomplete_rows,
    missing_counts,
    require_complete,
    select_complete,
)
from sswim.tables.table_io import TableError


def test_nulls_and_nans_are_counted() -> None:
    counts = missing_counts(gaps(), gaps().column_names)
    assert counts == {"f": 2, "i": 1, "s": 1, "d": 1, "n": 4}
    assert missing_counts(gaps(), ["y"]) == {}
    with pytest.raises(TableError, match="must have columns 'z'"):
        missing_counts(gaps(), ["z"])


def test_missing_values_are_refused_column_by_column() -> None:
    with pytest.raises(TableError, match=r"'f' \(2 rows\), 'i' \(1 rows\).*--drop-missing"):
        require_complete(gaps(), ["f", "y", "i"])
    require_complete(gaps(), ["y"])


def test_incomplete_rows_are_left_out() -> None:
    table, kept = drop_incomplete_rows(gaps(), ["f", "d"])
    assert kept.tolist() == [True, False, False, True]
    assert table.equals(gaps().take([0, 3]))
    whole, kept = drop_incomplete_rows(houses(), houses().column_names)
    assert kept.all()
    assert whole.equals(houses())


def test_leaving_out_every_row_is_refused() -> None:
    with pytest.raises(TableError, match=r"one row must be complete.*'n' \(4 rows\), in.*--drop"):
        drop_incomplete_rows(gaps(), ["y", "n"])


def test_a_type_whose_rows_cannot_be_left_out_is_refused() -> None:
    lists = pa.array([["a"], ["b"]], pa.list_(pa.string_view()))
    with pytest.raises(TableError, match="cannot be left out"):
        drop_incomplete_rows(pa.table({"x": lists, "y": [1.0, None]}), ["y"])


def test_complete_rows_are_selected_or_required() -> None:
    table, n_left_out = select_complete(gaps(), ["f", "d"], drop_missing=True)
    assert table.equals(gaps().take([0, 3]))
    assert n_left_out == 2
    with pytest.raises(TableError, match=r"missing values in 'f' \(2 rows\)"):
        select_complete(gaps(), ["f"], drop_missing=False)
    whole, n_left_out = select_complete(houses(), ["price"], drop_missing=False)
    assert whole.equals(houses())
    assert n_left_out == 0
