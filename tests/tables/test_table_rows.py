from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import gaps, houses, learn, mixed, shares, small_chunks, with_gaps

from sswim.distributed.processes import Share
from sswim.tables import (
    KEEP_ALL,
    LeftOut,
    MemoryTable,
    NumberColumn,
    ParquetTable,
    Schema,
    TableError,
    TableSource,
    TargetedRows,
    complete_rows,
    open_source,
    read_rows,
    require_finite,
    sample_table,
    select_rows,
    target_format,
    target_numbers,
)

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
        pa.chunked_array([["3"], [None, "0"]]),
    ],
    ids=lambda values: str(values.type),
)
def test_targets_may_be_numbers_of_any_type(values: Any) -> None:
    found = target_numbers(pa.table({"y": values}), "y")
    assert np.array_equal(found, [3.0, np.nan, 0.0], equal_nan=True)


@pytest.mark.parametrize(
    ("texts", "marks", "numbers"),
    [
        (["1.5", "2", None], ".", [1.5, 2.0, np.nan]),
        (["1,5", "2", None], ",", [1.5, 2.0, np.nan]),
        (["?", *map(str, range(9))], ".", [np.nan, *range(9)]),
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
        ("time", r"'time' must hold numbers. Got type duration\[s\]; divide"),
    ],
)
def test_other_targets_are_refused(target: str, message: str) -> None:
    with pytest.raises(TableError, match=f"The target {message}"):
        target_numbers(houses().append_column("time", pa.array([1] * 4, pa.duration("s"))), target)


def test_infinite_targets_are_refused_with_their_row() -> None:
    values = [1.0, None, np.inf, 4.0, -np.inf]
    table = pa.table({"x": [1.0] * 5, "y": values})
    with pytest.raises(TableError, match=r"finite. Got 2 infinite values in column 'y'"):
        target_numbers(table, "y")
    with pytest.raises(TableError, match=r"infinite one in 'y' in row 3 of all rows, .* in 'mine'"):
        next(read_rows(MemoryTable(table, "mine"), ["x"], "y", LeftOut(target_missing=True)))


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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("f", np.inf, r"Numbers must be finite. Got an infinite one in 'f' in row 1,062.*remove"),
        ("y", -np.inf, r"Got an infinite one in 'y' in row 1,062 of all rows, counted from 1"),
    ],
)
def test_the_first_row_that_cannot_be_used_is_named(
    tmp_path: Path, name: str, value: Any, message: str
) -> None:
    table = mixed(1100)
    values = table[name].to_pylist()
    values[1061] = values[1080] = value
    place = table.column_names.index(name)
    table = table.set_column(place, name, pa.array(values, table[name].type))
    for file, piece in (("a", table.slice(0, 1000)), ("b", table.slice(1000))):
        pq.write_table(piece, tmp_path / f"{file}.parquet", row_group_size=50)
    learnt = learn(mixed(1100))
    for left_out in (LeftOut(), LeftOut(any_missing=True)):
        source = TableSource(ParquetTable.open(tmp_path), learnt, left_out)
        with pytest.raises(TableError, match=message) as caught:
            list(source.chunks(Share(1, 2)))
        assert f"which is in '{tmp_path / 'b.parquet'}'" in str(caught.value)
        assert sum(len(chunk) for chunk in source.chunks(Share(0, 2))) == 550
    with pytest.raises(TableError, match=message):
        open_source(tmp_path, "y")


def test_all_columns_with_an_infinite_number_in_that_row_are_named() -> None:
    table = pa.table(
        {
            "a": [1.0, np.inf],
            "b": pa.array([1.0, -np.inf], pa.float16()),
            "c": ["x", "inf"],
            "d": [None, np.nan],
            "e": pa.array([1, None]),
        }
    )
    with pytest.raises(TableError, match=r"one in 'a', 'b' in row 9 of its file, .* in 'mine'"):
        require_finite(np.array([7, 8]), table, "mine", "its file")
    require_finite(np.array([7]), table.slice(0, 1), "mine")
