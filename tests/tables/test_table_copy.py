from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import mixed, small_chunks

from sswim.tables import (
    MemoryTable,
    TableError,
    copy_file,
    open_table,
    read_table,
    require_copy,
    split_by_file,
    write_table,
)
from sswim.tables.table_copy import RowReader


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv.gz", ".arrow"])
def test_a_file_is_copied_to_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    small_chunks(monkeypatch, 4)
    table = mixed(10).drop_columns(["f"])
    write_table(table, tmp_path / f"in{suffix}")
    (file,) = split_by_file(open_table(tmp_path / f"in{suffix}"))
    kept = np.arange(10) % 3 != 1
    with copy_file(file, tmp_path / "out.parquet", ["p"]) as copy:
        for rows in (slice(0, 5), slice(5, 10)):
            copy.append(kept[rows], {"p": np.arange(10.0)[rows][kept[rows]]})
    numbers = pa.array(np.arange(10.0)[kept])
    expected = table.filter(pa.array(kept)).append_column("p", numbers)
    assert pq.read_table(tmp_path / "out.parquet").equals(expected)


def test_a_csv_file_is_copied_to_csv(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes(b"zip;x\r\n00001;1,50\r\n")
    (file,) = split_by_file(open_table(tmp_path / "in.csv"))
    with copy_file(file, tmp_path / "out.tsv", ["p"]) as copy:
        copy.append(np.array([True]), {"p": np.array([0.5])})
    assert (tmp_path / "out.tsv").read_bytes() == b"zip;x;p\r\n00001;1,50;0,5\r\n"
    for name in ("out.parquet", "out.arrow"):
        with copy_file(file, tmp_path / name, ["p"]) as copy:
            copy.append(np.array([True]), {"p": np.array([0.5])})
        found = read_table(tmp_path / name).to_pylist()
        assert found == [{"zip": "00001", "x": 1.5, "p": 0.5}]


def test_other_copies_are_refused() -> None:
    require_copy("a.csv", "b.parquet")
    require_copy("a.csv.gz", "b.tsv")
    require_copy("a.csv.gz", "b.feather")
    require_copy("a.parquet", "b.parquet")
    for source, out in (("a.parquet", "b.csv"), ("folder", "b.arrow")):
        with pytest.raises(TableError, match=r"to a .parquet file, unless it is a CSV file"):
            require_copy(source, out)


def test_rows_are_taken_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch, 4)
    reader = RowReader(MemoryTable(pa.table({"x": range(11)}), "t"), ["x"])
    taken = [reader.take(n)["x"].to_pylist() for n in (1, 6, 4)]
    assert taken == [[0], [1, 2, 3, 4, 5, 6], [7, 8, 9, 10]]
