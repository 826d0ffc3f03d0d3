from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sswim.tables import rows_per_chunk, split_rows
from sswim.tables.table import CHUNK_BYTES, CHUNK_ROWS, rechunk


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
