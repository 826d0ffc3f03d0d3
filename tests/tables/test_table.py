from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from builders.tables import all_rows, mixed, small_chunks
from hypothesis import given, settings
from hypothesis import strategies as st

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.tables import (
    CHUNK_BYTES,
    CHUNK_ROWS,
    MemoryTable,
    TableError,
    rechunk,
    require_same_names,
    rows_per_chunk,
    split_rows,
    table_files,
)


@settings(max_examples=50, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), max_size=8), n_rows=st.integers(1, 12))
def test_batches_are_cut_and_joined(sizes: list[int], n_rows: int) -> None:
    starts = np.cumsum([0, *sizes])
    batches = [
        pa.record_batch({"x": pa.array(np.arange(start, start + size))})
        for start, size in zip(starts, sizes, strict=False)
    ]
    found = list(rechunk(batches, n_rows))
    assert [number for table in found for number in table["x"].to_pylist()] == list(
        range(sum(sizes))
    )
    assert all(table.num_rows == n_rows for table in found[:-1])
    assert all(0 < table.num_rows <= n_rows for table in found)


def test_chunks_of_wide_tables_have_fewer_rows() -> None:
    assert rows_per_chunk(0) == rows_per_chunk(1) == CHUNK_ROWS
    assert rows_per_chunk(1024) == CHUNK_BYTES // (8 * 1024) < CHUNK_ROWS
    assert rows_per_chunk(10**9) == 1


def test_a_table_is_cut_into_pieces() -> None:
    pieces = split_rows(pa.table({"x": [1, 2, 3, 4, 5]}), 2)
    assert [piece["x"].to_pylist() for piece in pieces] == [[1, 2], [3, 4], [5]]


SIZES = [1, 2, 3, 5, 100]


def test_a_table_in_memory_has_spans_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch, 3)
    table = mixed(10)
    tables = MemoryTable(table, "mine")
    assert (tables.n_rows, tables.nbytes, tables.schema) == (10, table.nbytes, table.schema)
    assert [chunk.first for chunk in tables.chunks(["n"], Share(1, 2))] == [5, 8]
    assert {chunk.file for chunk in tables.chunks(["n"], ALL_ROWS)} == {"mine"}
    for size in SIZES:
        assert all_rows(tables, ["f", "n"], size) == table.select(["f", "n"]).to_pylist()


@pytest.mark.parametrize(
    ("names", "got"),
    [
        ([], "none"),
        (["_a.parquet", "b/.c.csv"], "none"),
        (["a.csv", "b.parquet"], "'a.csv', 'b.parquet'"),
        (["a.feather"], "'a.feather'"),
        (["a.csv", "b/c.txt"], "'a.csv', 'b.c.txt'"),
        (["a.csv", "README.txt"], "'README.txt', 'a.csv'"),
        (["README.md"], "'README.md'"),
    ],
)
def test_a_folder_of_anything_else_is_refused(tmp_path: Path, names: list[str], got: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(TableError, match=rf"and no others\. Got {got} in '.*underscore"):
        table_files(tmp_path)


def test_files_of_a_folder_are_sorted_by_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("b.csv", "a/z.csv.gz", "a/_left_out.csv", ".hidden.csv"):
        (tmp_path / name).touch()
    assert table_files(tmp_path) == [str(tmp_path / "a" / "z.csv.gz"), str(tmp_path / "b.csv")]
    assert table_files(tmp_path / "b.csv") == [str(tmp_path / "b.csv")]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["x", "y", "z"], r"Got 'z' in 'new.csv' and not in 'first.csv'"),
        (["x"], r"Got 'y' in 'first.csv' and not in 'new.csv'"),
    ],
)
def test_files_with_other_columns_are_refused(names: list[str], message: str) -> None:
    require_same_names(["y", "x"], "new.csv", ["x", "y"], "first.csv")
    with pytest.raises(TableError, match=message):
        require_same_names(names, "new.csv", ["x", "y"], "first.csv")
