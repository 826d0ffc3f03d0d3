from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import mixed

from sswim.distributed.share import Share
from sswim.tables.memory_table import MemoryTable
from sswim.tables.parquet_table import ParquetTable
from sswim.tables.schema import Schema
from sswim.tables.table_io import TableError
from sswim.tables.table_source import TableSource


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("f", None, r"value in each column that is used. Got none in 'f' in row 1,062 of all rows"),
        ("f", np.nan, r"Got none in 'f' in row 1,062 of all rows, counted from 1.*--drop-missing"),
        ("y", None, r"Got none in 'y' in row 1,062"),
        ("town", None, r"Got none in 'town' in row 1,062"),
        ("day", None, r"Got none in 'day' in row 1,062"),
        ("f", np.inf, r"Numbers must be finite. Got an infinite one in 'f' in row 1,062.*remove"),
        ("y", -np.inf, r"Got an infinite one in 'y' in row 1,062"),
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
    source = TableSource(ParquetTable.open(tmp_path), Schema.learn(mixed(1100), "y"))
    with pytest.raises(TableError, match=message) as caught:
        list(source.chunks(Share(1, 2)))
    assert f"which is in '{tmp_path / 'b.parquet'}'" in str(caught.value)
    assert sum(len(chunk) for chunk in source.chunks(Share(0, 2))) == 550
    if "infinite" in message:
        with pytest.raises(TableError, match=message):
            list(TableSource(source.table, source.schema, drop_missing=True).chunks())


def test_all_columns_without_a_value_in_that_row_are_named() -> None:
    table = pa.table({"a": [1.0, None], "b": [1, None], "c": ["x", "x"], "y": [1.0, None]})
    source = TableSource(MemoryTable(table, "mine"), Schema.learn(table, "y"))
    with pytest.raises(TableError, match=r"none in 'a', 'b', 'y' in row 2 of .* in 'mine'"):
        list(source.chunks())


def test_the_row_of_an_infinite_number_is_counted_among_all() -> None:
    table = pa.table({"x": [None, 1.0, np.inf], "y": [1.0, 2.0, 3.0]})
    source = TableSource(MemoryTable(table, "mine"), Schema.learn(table, "y"), drop_missing=True)
    with pytest.raises(TableError, match="infinite one in 'x' in row 3 of all rows"):
        list(source.chunks())
