from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import dictionary, houses, mixed, shares, small_chunks, views, with_gaps

from sswim.rows.source import Chunk
from sswim.tables import chunked_table
from sswim.tables.chunked_table import ChunkedTable, split_rows
from sswim.tables.csv_table import CsvTable
from sswim.tables.memory_table import MemoryTable
from sswim.tables.missing_values import drop_incomplete_rows
from sswim.tables.open_table import open_table
from sswim.tables.schema import Column, Schema, UnknownCategoryWarning
from sswim.tables.table_io import TableError, write_table
from sswim.tables.table_source import TableSource, learn_source, open_source

SIZES = [1, 2, 3, 5, 100]


def together(chunks: list[Chunk]) -> tuple[Any, Any, Any]:
    """Return numbers, inputs and targets of all chunks, in the order of the numbers."""
    order = np.argsort(np.concatenate([chunk.numbers for chunk in chunks]))
    fields = ("numbers", "inputs", "targets")
    return tuple(  # type: ignore[return-value]
        np.concatenate([getattr(chunk, field) for chunk in chunks])[order] for field in fields
    )


def all_chunks(source: TableSource, size: int) -> list[Chunk]:
    return [chunk for share in shares(size) for chunk in source.chunks(share)]


def opened(form: str, table: pa.Table, folder: Path) -> ChunkedTable:
    """Open a table in memory, in one file or in several."""
    if form == "memory":
        return MemoryTable(table, "memory")
    if form == "folder":
        for number, piece in enumerate(split_rows(table, 30)):
            pq.write_table(piece, folder / f"{number}.parquet", row_group_size=8)
        return open_table(folder)
    write_table(table, folder / f"t.{form}")
    return open_table(folder / f"t.{form}")


FORMS = ["memory", "folder", "parquet", "csv", "csv.gz"]
MEMORY = [None, 0, 2**30]
"""Sizes up to which a table is read whole: never, never, always."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_rows_are_those_of_the_table_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int
) -> None:
    small_chunks(monkeypatch, 7)
    table = mixed(97)
    schema = Schema.learn(table, "y")
    source = TableSource(opened(form, table, tmp_path), schema)
    assert source.names == tuple(schema.feature_names)
    assert source.table_schema == schema.to_dict()
    assert source.flat_targets
    for _ in range(2):  # as often as one likes
        numbers, inputs, targets = together(all_chunks(source, size))
        np.testing.assert_array_equal(numbers, np.arange(97))
        np.testing.assert_array_equal(inputs, schema.encode(table))
        np.testing.assert_array_equal(targets, schema.targets(table)[:, None])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", FORMS)
def test_the_same_incomplete_rows_are_left_out_of_every_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int
) -> None:
    small_chunks(monkeypatch, 2)
    table = with_gaps(mixed(97))
    kept_table, kept = drop_incomplete_rows(table, table.column_names)
    assert 0 < kept.sum() < 60
    schema = Schema.learn(kept_table, "y")
    source = TableSource(opened(form, table, tmp_path), schema, drop_missing=True)
    chunks = all_chunks(source, size)
    assert all(len(chunk) for chunk in chunks)
    numbers, inputs, targets = together(chunks)
    np.testing.assert_array_equal(numbers, np.flatnonzero(kept))
    np.testing.assert_array_equal(inputs, schema.encode(kept_table))
    np.testing.assert_array_equal(targets, schema.targets(kept_table)[:, None])


def test_columns_that_the_table_lacks_are_named_before_reading() -> None:
    schema = Schema.learn(houses(), "price")
    with pytest.raises(TableError, match=r"must have columns 'town'. Got none such"):
        TableSource(MemoryTable(houses().drop_columns(["town"]), "t"), schema)
    with pytest.raises(TableError, match="must have columns 'price'"):
        TableSource(MemoryTable(houses().drop_columns(["price"]), "t"), schema)


def test_a_column_of_another_kind_is_refused() -> None:
    schema = Schema("price", (Column("town", "number"),))
    with pytest.raises(TableError, match=r"Column 'town' must hold numbers. Got type string"):
        list(TableSource(MemoryTable(houses(), "t"), schema).chunks())


def test_a_file_may_lack_all_values_of_a_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.5], "y": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.nulls(2), "y": [1.0, 2.0]}), tmp_path / "b.parquet")
    source = learn_source(open_table(tmp_path), "y", drop_missing=True)
    assert [chunk.numbers.tolist() for chunk in source.chunks()] == [[0]]
    with pytest.raises(TableError, match=r"none in 'x' in row 2 of .*b.parquet"):
        list(learn_source(open_table(tmp_path), "y").chunks())


def test_text_and_times_of_every_type_are_encoded() -> None:
    table = pa.table(
        {
            "view": pa.array(["x", "y", "x", None], pa.string_view()),
            "category": views(["p", "q"], [0, 1, 1, 0]),
            "dictionary": dictionary(["u", "v", "u", "v"], pa.large_string()),
            "day": pa.array([1, 2, 3, 4], pa.date32()),
            "time": pa.array([1, 2, 3, 4], pa.timestamp("ms", "Australia/Sydney")),
            "y": [1.0, 2.0, 3.0, 4.0],
        }
    )
    for size in (1, 3):
        source = learn_source(MemoryTable(table, "t"), "y", drop_missing=True)
        _, inputs, _ = together(all_chunks(source, size))
        kept, _ = drop_incomplete_rows(table, table.column_names)
        np.testing.assert_array_equal(inputs, source.schema.encode(kept))


def test_a_category_that_was_not_learned_is_told() -> None:
    source = TableSource(
        MemoryTable(houses(), "t"), Schema("price", (Column("town", "category", ("York",)),))
    )
    with pytest.warns(UnknownCategoryWarning, match="in 2 rows"):
        (chunk,) = source.chunks()
    assert chunk.inputs.tolist() == [[1.0], [0.0], [1.0], [0.0]]


def test_a_source_learns_its_columns() -> None:
    source = learn_source(MemoryTable(houses(), "t"), "price", drop=["sold"])
    assert source.schema == Schema.learn(houses(), "price", ["sold"])
    assert source.names == ("rooms", "town=Bath", "town=Ely, the city", "town=York", "new")


def test_wide_rows_come_in_smaller_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked_table, "CHUNK_BYTES", 8 * 3 * 10)
    texts = [f"t{i % 15}" for i in range(40)]
    source = learn_source(MemoryTable(pa.table({"x": texts, "y": [0.0] * 40}), "t"), "y")
    assert max(len(chunk) for chunk in source.chunks()) == 2
    assert np.concatenate([c.numbers for c in source.chunks()]).tolist() == list(range(40))


def test_encoding_takes_milliseconds() -> None:
    rng = np.random.default_rng(0)
    table = pa.table({f"x{i}": rng.normal(size=65_536) for i in range(11)})
    source = learn_source(MemoryTable(table, "t"), "x0")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        (chunk,) = source.chunks()
        times.append(time.perf_counter() - start)
    assert len(chunk) == 65_536
    assert min(times) < 0.05


def test_a_csv_is_learned_and_read(tmp_path: Path) -> None:
    write_table(mixed(50), tmp_path / "t.csv")
    source = learn_source(CsvTable.open(tmp_path / "t.csv"), "y")
    assert source.schema == Schema.learn(mixed(50), "y")


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("form", ["parquet", "csv", "arrow"])
def test_a_table_is_opened_as_a_source(tmp_path: Path, form: str, memory: int | None) -> None:
    write_table(mixed(50), tmp_path / f"t.{form}")
    source = open_source(tmp_path / f"t.{form}", "y", drop=["n"], memory=memory)
    assert source.schema == Schema.learn(mixed(50), "y", ["n"])
    assert source.n_left_out == 0
    is_whole = isinstance(source.table, MemoryTable)
    assert is_whole == (memory == 2**30 or form == "arrow")
    numbers, inputs, targets = together(all_chunks(source, 2))
    np.testing.assert_array_equal(numbers, np.arange(50))
    np.testing.assert_array_equal(inputs, source.schema.encode(mixed(50)))
    np.testing.assert_array_equal(targets[:, 0], mixed(50)["y"].to_numpy())


@pytest.mark.parametrize("memory", MEMORY)
def test_a_source_leaves_incomplete_rows_out_when_it_is_opened_or_read(
    tmp_path: Path, memory: int | None
) -> None:
    table = with_gaps(mixed(97))
    complete, kept = drop_incomplete_rows(table, table.column_names)
    write_table(table, tmp_path / "t.parquet")
    source = open_source(tmp_path / "t.parquet", "y", drop_missing=True, memory=memory)
    assert source.schema == Schema.learn(complete, "y")
    _, inputs, _ = together(all_chunks(source, 1))
    np.testing.assert_array_equal(inputs, source.schema.encode(complete))
    n_missing = 97 - int(kept.sum())
    n_skipped = sum(n for _, n in source.counted_chunks())
    assert (source.n_left_out, n_skipped) == ((n_missing, 0) if memory else (0, n_missing))


def test_missing_values_are_an_error_when_a_small_table_is_opened(tmp_path: Path) -> None:
    write_table(with_gaps(mixed(20)), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"'f' \(5 rows\), 'town' \(7 rows\).*--drop-missing"):
        open_source(tmp_path / "t.parquet", "y", memory=2**30)


def test_rows_left_out_of_each_chunk_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch, 2)
    table = pa.table({"x": [1.0, None, None, None, 5.0], "y": [1.0, 2.0, 3.0, 4.0, 5.0]})
    schema = Schema("y", (Column("x", "number"),))
    source = TableSource(MemoryTable(table, "t"), schema, drop_missing=True)
    counted = list(source.counted_chunks())
    assert [n for _, n in counted] == [1, 2, 0]
    found = [None if chunk is None else chunk.numbers.tolist() for chunk, _ in counted]
    assert found == [[0], None, [4]]
    assert [chunk.numbers.tolist() for chunk in source.chunks()] == [[0], [4]]
