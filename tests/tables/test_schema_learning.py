from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import dictionary, houses, mixed, shares, small_chunks, views, with_gaps

from sswim.distributed.share import ALL_ROWS, Share
from sswim.tables.categories import MAX_CATEGORIES
from sswim.tables.chunked_table import ChunkedTable, TableChunk
from sswim.tables.memory_table import MemoryTable
from sswim.tables.missing_values import drop_incomplete_rows
from sswim.tables.open_table import open_table
from sswim.tables.schema import Schema
from sswim.tables.schema_learning import ShareFindings, learn_schema
from sswim.tables.table_io import TableError, write_table

SIZES = [1, 2, 3, 5]


class Sent(Exception):  # noqa: N818 (it ends a simulated process, which would wait for others)
    """A simulated process has sent its findings."""


def learned_by(
    size: int,
    tables: ChunkedTable,
    target: str,
    drop: Collection[str] = (),
    drop_missing: bool = False,
) -> Schema:
    """Return the schema that ``size`` processes learn, which must be the same in all of them."""
    found: list[ShareFindings] = []

    def send(mine: ShareFindings) -> list[ShareFindings]:
        found.append(mine)
        raise Sent

    for share in shares(size):
        with pytest.raises(Sent):
            learn_schema(tables, target, drop, share, send, drop_missing)
    results: list[Schema | str] = []
    for share in shares(size):
        try:
            schema = learn_schema(tables, target, drop, share, lambda _: found, drop_missing)
            results.append(schema)
        except TableError as error:
            results.append(str(error))
    assert all(result == results[0] for result in results)
    if isinstance(results[0], str):
        raise TableError(results[0])
    return results[0]


class Watched:
    """A table in memory that records which columns and how many chunks are read."""

    def __init__(self, table: pa.Table) -> None:
        self._tables = MemoryTable(table, "watched")
        self.name, self.schema = self._tables.name, self._tables.schema
        self.n_rows, self.nbytes = self._tables.n_rows, self._tables.nbytes
        self.columns: list[str] = []
        self.n_chunks = 0

    def chunks(self, columns: Sequence[str], share: Share = ALL_ROWS) -> Iterator[TableChunk]:
        self.columns = list(columns)
        for chunk in self._tables.chunks(columns, share):
            self.n_chunks += 1
            yield chunk


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("form", ["memory", "parquet", "csv"])
def test_any_number_of_processes_learns_what_a_table_in_memory_teaches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, size: int
) -> None:
    small_chunks(monkeypatch, 5)
    table = mixed(97)
    tables: ChunkedTable = MemoryTable(table, "memory")
    if form != "memory":
        write_table(table, tmp_path / f"t.{form}")
        tables = open_table(tmp_path / f"t.{form}")
    assert learn_schema(tables, "y", ["n"]) == Schema.learn(table, "y", ["n"])
    assert learned_by(size, tables, "y", ["n"]) == Schema.learn(table, "y", ["n"])


@pytest.mark.parametrize("size", SIZES)
def test_categories_are_those_of_complete_rows(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    small_chunks(monkeypatch, 4)
    rare = ["rare" if i == 2 else f"t{i % 9}" for i in range(97)]
    table = with_gaps(mixed(97)).append_column("rare", pa.array(rare))
    kept, _ = drop_incomplete_rows(table, ["y", "f", "town", "day", "new", "rare"])
    tables = MemoryTable(table, "t")
    expected = Schema.learn(kept, "y", ["n"])
    assert learned_by(size, tables, "y", ["n"], drop_missing=True) == expected
    assert expected != Schema.learn(table, "y", ["n"])
    assert learned_by(size, tables, "y", ["n"]) == Schema.learn(table, "y", ["n"])


@pytest.mark.parametrize("size", SIZES)
def test_text_of_every_type_is_learned(size: int) -> None:
    table = pa.table(
        {
            "plain": ["b", "a", None, "b"],
            "view": pa.array(["x", "y", "x", None], pa.string_view()),
            "category": views(["p", "q", "unused"], [0, 1, 1, 0]),
            "dictionary": dictionary(["u", "v", "u", "v"], pa.large_string()),
            "y": [1.0, 2.0, 3.0, 4.0],
        }
    )
    for dropping in (False, True):
        kept = drop_incomplete_rows(table, table.column_names)[0] if dropping else table
        tables = MemoryTable(table, "t")
        assert learned_by(size, tables, "y", drop_missing=dropping) == Schema.learn(kept, "y")


def test_the_names_of_folders_are_categories(tmp_path: Path) -> None:
    for town in ("York", "Bath"):
        (tmp_path / f"town={town}").mkdir()
        pq.write_table(pa.table({"y": [1.0, 2.0]}), tmp_path / f"town={town}" / "a.parquet")
    tables = open_table(tmp_path)
    assert learned_by(2, tables, "y").feature_names == ["town=Bath", "town=York"]


def test_only_columns_of_text_are_read() -> None:
    tables = Watched(houses())
    learn_schema(tables, "price")
    assert tables.columns == ["town"]
    learn_schema(tables, "price", ["new"], drop_missing=True)
    assert tables.columns == ["rooms", "town", "sold", "price"]
    tables = Watched(houses())
    for dropping in (False, True):
        learn_schema(tables, "price", ["town"], drop_missing=dropping)
    assert tables.n_chunks == 0


def test_nothing_more_is_read_after_too_many_categories(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch, 300)
    texts = [f"id{i}" for i in range(10_000)]
    late = [None if i < 9000 else "late" for i in range(10_000)]
    tables = Watched(pa.table({"late": late, "x": texts, "y": [0.0] * 10_000}))
    with pytest.raises(
        TableError, match=r"^A text column .* Got column 'x' .*with 1200 in 1200 rows; .*--drop x.$"
    ):
        learn_schema(tables, "y")
    assert tables.n_chunks == MAX_CATEGORIES // 300 + 1
    with pytest.raises(TableError, match=r"Got column 'x' .*with 1200 in 1200 rows"):
        learned_by(2, tables, "y")
    with pytest.raises(TableError, match=r"Got column 'x' .*with 10000 in 10000 rows"):
        learned_by(20, tables, "y")  # each of which has few


@pytest.mark.parametrize(
    ("target", "drop", "message"),
    [
        ("prices", [], "must have columns 'prices'. Got none such; close to it: 'price'"),
        ("price", ["room", "new"], "must have columns 'room'. .* close to it: 'rooms'"),
        ("price", ["price"], "target must not be dropped. Got 'price'"),
        ("town", [], "Column 'town' must hold numbers. Got type string"),
        ("price", ["rooms", "town", "sold", "new"], "At least one input column must remain"),
    ],
)
def test_a_choice_that_the_table_does_not_allow_is_refused_before_reading(
    target: str, drop: list[str], message: str
) -> None:
    tables = Watched(houses())
    with pytest.raises(TableError, match=message):
        learn_schema(tables, target, drop)
    assert tables.n_chunks == 0


def test_columns_that_cannot_be_used_are_refused_before_reading() -> None:
    tables = Watched(pa.table({"a": pa.nulls(1), "b": ["b"], "c": [[1]], "y": [1.0]}))
    with pytest.raises(TableError, match=r"--drop a\.\n.*--drop c\."):
        learn_schema(tables, "y")
    assert tables.n_chunks == 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "values",
    [
        [f"id{i}" for i in range(21)],
        pa.nulls(21, pa.string()),
        [f"id{i}" if i % 2 else None for i in range(50)],
    ],
)
def test_columns_of_text_are_refused_as_in_memory(size: int, values: Any) -> None:
    table = pa.table({"id": values, "x": values, "y": [0.0] * len(values)})
    with pytest.raises(TableError) as expected:
        Schema.learn(table, "y")
    with pytest.raises(TableError) as caught:
        learned_by(size, MemoryTable(table, "t"), "y")
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("size", SIZES)
def test_a_table_without_a_complete_row_is_refused_as_in_memory(size: int) -> None:
    table = pa.table({"t": ["a", None, "b"], "x": [None, 1.0, None], "y": [1.0, 2.0, 3.0]})
    with pytest.raises(TableError, match="one row must be complete") as expected:
        drop_incomplete_rows(table, ["t", "x", "y"])
    with pytest.raises(TableError) as caught:
        learned_by(size, MemoryTable(table, "t"), "y", drop_missing=True)
    assert str(caught.value) == str(expected.value)


def test_all_processes_hear_of_a_file_that_one_cannot_read(tmp_path: Path) -> None:
    for name in ("a", "b"):
        table = pa.table({"x": ["p", "q"], "y": [1.0, 2.0]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    tables = open_table(tmp_path)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(TableError, match=r"b.parquet' cannot be read"):
        learned_by(2, tables, "y")
