from __future__ import annotations

import pytest
from builders.tables import all_rows, mixed, small_chunks

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.tables import MemoryTable

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
