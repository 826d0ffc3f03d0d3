from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from builders.tables import gaps, houses, mixed, shares, small_chunks, with_gaps

from sswim.tables import (
    KEEP_ALL,
    LeftOut,
    MemoryTable,
    TableError,
    TargetedRows,
    complete_rows,
    read_rows,
    target_numbers,
)
from sswim.tables.table_rows import select_rows, target_format

NAMES = ["n", "f", "town", "day", "new"]


def read(table: pa.Table, left_out: LeftOut, size: int = 1) -> list[TargetedRows]:
    memory = MemoryTable(table, "mine")
    every = (read_rows(memory, NAMES, "y", left_out, share) for share in shares(size))
    return [rows for each in every for rows in each]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize(
    "left_out", [LeftOut(any_missing=True), LeftOut(target_missing=True), LeftOut(True, True)]
)
def test_the_same_rows_are_left_out_of_every_share(
    monkeypatch: pytest.MonkeyPatch, left_out: LeftOut, size: int
) -> None:
    small_chunks(monkeypatch, 4)
    table = with_gaps(mixed(97))
    kept = complete_rows(table, [*NAMES, "y"] if left_out.any_missing else ["y"])
    found = read(table, left_out, size)
    numbers = np.concatenate([rows.numbers for rows in found])
    assert numbers.tolist() == np.flatnonzero(kept).tolist()
    assert pa.concat_tables([rows.table for rows in found]).to_pylist() == (
        table.select(NAMES).filter(pa.array(kept)).to_pylist()
    )
    targets = np.concatenate([rows.targets for rows in found])
    assert targets.shape == (kept.sum(), 1)
    assert np.array_equal(targets[:, 0], table["y"].to_numpy()[kept])
    assert sum(rows.n_left_out for rows in found) == 97 - kept.sum()
    assert {rows.file for rows in found} == {"mine"}


def test_all_rows_are_kept_if_they_have_targets() -> None:
    (rows,) = read(mixed(97), KEEP_ALL)
    assert rows.numbers.tolist() == list(range(97))
    assert rows.n_left_out == 0


def test_rows_without_a_target_are_counted_before_they_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_chunks(monkeypatch, 4)
    message = r"Every row must have a target. Got 13 of 97 rows without one in column 'y'; leave"
    with pytest.raises(TableError, match=message):
        read(with_gaps(mixed(97)), KEEP_ALL)


def test_columns_that_the_table_lacks_are_named_before_reading() -> None:
    for names, target in ((["rooms", "towns"], "price"), (["rooms"], "prices")):
        with pytest.raises(TableError, match=r"must have columns '(towns|prices)'. Got none such"):
            next(read_rows(MemoryTable(houses(), "t"), names, target))


def test_rows_are_selected() -> None:
    kept, rows, targets, n_missing = select_rows(gaps(), ["f", "d"], "y", LeftOut(any_missing=True))
    assert rows.equals(gaps().select(["f", "d"]).take([0, 3]))
    assert targets.tolist() == [1.0, 4.0]
    assert kept.tolist() == [0, 3]
    assert n_missing == 0
    kept, _, _, n_missing = select_rows(gaps(), ["y"], "f", KEEP_ALL)
    assert kept.tolist() == [0, 3]
    assert n_missing == 2


@pytest.mark.parametrize(
    "values",
    [
        *(pa.array([3, None, 0], dtype) for dtype in (pa.int8(), pa.uint64(), pa.float32())),
        pa.array([3.0, np.nan, 0.0], pa.float16()),
        pa.array([Decimal(3), None, Decimal(0)]),
        pa.array(["3", None, " 0.0 "]),
        pa.array(["3", None, "0"], pa.string_view()),
    ],
    ids=lambda values: str(values.type),
)
def test_targets_may_be_numbers_of_any_type(values: Any) -> None:
    found = target_numbers(pa.table({"y": values}), "y")
    assert np.array_equal(found, [3.0, np.nan, 0.0], equal_nan=True)


def test_truth_values_are_targets() -> None:
    assert target_numbers(pa.table({"y": [True, False]}), "y").tolist() == [1.0, 0.0]


def test_few_texts_among_targets_are_missing() -> None:
    texts = ["?", *map(str, range(9))]
    found = target_numbers(pa.table({"y": texts}), "y")
    assert np.array_equal(found, [np.nan, *range(9)], equal_nan=True)


@pytest.mark.parametrize(
    ("texts", "marks", "numbers"),
    [
        (["1.5", "2", None], ".", [1.5, 2.0, np.nan]),
        (["1,5", "2", None], ",", [1.5, 2.0, np.nan]),
        (["1.234,5", "2"], ",.", [1234.5, 2.0]),
        (["1,234.5", "2"], ".,", [1234.5, 2.0]),
        (["1,234", "2,345"], ".,", [1234.0, 2345.0]),
        (["1 234,5", *["2,25"] * 9, "?"], ", ", [1234.5, *[2.25] * 9, np.nan]),
    ],
)
def test_targets_that_are_text_have_the_format_of_most(
    texts: list[str | None], marks: str, numbers: list[float]
) -> None:
    table = pa.table({"y": texts})
    assert target_format(table, "y") == marks
    assert np.array_equal(target_numbers(table, "y"), numbers, equal_nan=True)
    assert target_format(pa.table({"y": [1.5]}), "y") is None


def test_chunks_have_the_format_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch, 2)
    texts = ["1.234,5", "7", "1.234", "5.678"]  # the last two might be fractions
    memory = MemoryTable(pa.table({"x": [1.0] * 4, "y": texts}), "t")
    for size in (1, 2):
        found = [
            rows for share in shares(size) for rows in read_rows(memory, ["x"], "y", share=share)
        ]
        targets = np.concatenate([rows.targets[:, 0] for rows in found])
        assert targets.tolist() == [1234.5, 7.0, 1234.0, 5678.0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("town", r"'town' must hold numbers. Got text: 'York', 'Bath', 'Ely, the city'"),
        ("sold", r"'sold' must hold numbers. Got type date32"),
    ],
)
def test_other_targets_are_refused(target: str, message: str) -> None:
    with pytest.raises(TableError, match=f"The target {message}"):
        target_numbers(houses(), target)


def test_durations_are_no_targets() -> None:
    table = pa.table({"y": pa.array([1, 2], pa.duration("s"))})
    with pytest.raises(TableError, match=r"'y' must hold numbers. Got type duration\[s\]; divide"):
        target_numbers(table, "y")


def test_infinite_targets_are_refused_with_their_row() -> None:
    values = [1.0, None, np.inf, 4.0, -np.inf]
    table = pa.table({"x": [1.0] * 5, "y": values})
    with pytest.raises(TableError, match=r"finite. Got 2 infinite values in column 'y'"):
        target_numbers(table, "y")
    with pytest.raises(TableError, match=r"infinite one in 'y' in row 3 of all rows, .* in 'mine'"):
        next(read_rows(MemoryTable(table, "mine"), ["x"], "y", LeftOut(target_missing=True)))
