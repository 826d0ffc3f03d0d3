from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import learn, mixed

from sswim.distributed.processes import Share
from sswim.tables import LeftOut, MemoryTable, TableError, TableSource, open_source, require_finite
from sswim.tables.parquet_table import ParquetTable


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


def test_the_row_of_an_infinite_number_is_counted_among_all() -> None:
    table = pa.table({"x": [None, 1.0, np.inf], "y": [1.0, 2.0, 3.0]})
    learnt = learn(table.slice(0, 2))
    source = TableSource(MemoryTable(table, "mine"), learnt, LeftOut(any_missing=True))
    with pytest.raises(TableError, match="infinite one in 'x' in row 3 of all rows"):
        list(source.chunks())
