from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import all_rows, mixed

from sswim.tables.csv_table import GZIP_RATIO
from sswim.tables.file_table import split_by_file
from sswim.tables.memory_table import MemoryTable
from sswim.tables.open_table import open_table
from sswim.tables.table_io import TableError, write_table


def test_every_parquet_file_is_a_table(tmp_path: Path) -> None:
    table = mixed(10)
    pq.write_table(table.slice(0, 7), tmp_path / "a.parquet")
    reordered = table.slice(7).select(table.column_names[::-1])
    pq.write_table(reordered.replace_schema_metadata({"k": "v"}), tmp_path / "b.parquet")
    first, second = split_by_file(open_table(tmp_path), [])
    assert [first.path, second.path] == [str(tmp_path / f"{name}.parquet") for name in "ab"]
    assert (first.size, second.size) == (7, 3)
    assert first.has_row_count
    assert first.schema() == table.schema
    assert second.schema().names == table.column_names[::-1]
    assert second.schema().metadata == {b"k": b"v"}
    (chunk,) = second.table.chunks(["n"])
    assert chunk.table["n"].to_pylist() == [7, 8, 9]
    assert chunk.first == 0  # numbered within the file


def test_columns_of_folder_names_are_not_in_the_file(tmp_path: Path) -> None:
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(mixed(3), tmp_path / f"year={year}" / "a.parquet")
    for file, year in zip(split_by_file(open_table(tmp_path), []), (2020, 2021), strict=True):
        assert file.schema() == mixed(3).schema
        (chunk,) = file.table.chunks(["year", "n"])
        assert chunk.table.to_pylist() == [{"year": year, "n": number} for number in range(3)]


def test_every_csv_file_is_a_table(tmp_path: Path) -> None:
    table = mixed(10)
    write_table(table.slice(0, 7), tmp_path / "a.csv")
    write_table(table.slice(7).select(table.column_names[::-1]), tmp_path / "b.csv.gz")
    first, second = split_by_file(open_table(tmp_path), ["n"])
    assert not first.has_row_count
    assert first.size == (tmp_path / "a.csv").stat().st_size
    assert second.size == GZIP_RATIO * (tmp_path / "b.csv.gz").stat().st_size
    assert second.schema().names == table.column_names[::-1]
    assert second.schema().field("n").type == pa.float64()
    assert all_rows(second.table, ["n", "town"], 1) == table.select(["n", "town"])[7:].to_pylist()


def test_whole_numbers_that_are_not_used_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x,z\n")
    (tmp_path / "b.csv").write_text(f"id,x,z\n{2**62 + 1},3,0.5\n")
    _, file = split_by_file(open_table(tmp_path), ["x"])
    assert file.schema().types == [pa.int64(), pa.float64(), pa.float64()]
    (chunk,) = file.table.chunks(["id", "x", "z"])
    assert chunk.table.to_pylist() == [{"id": 2**62 + 1, "x": 3.0, "z": 0.5}]


def test_a_number_that_is_not_whole_after_all_is_told(tmp_path: Path) -> None:
    rows = "7,2\n" * 400_000
    (tmp_path / "t.csv").write_text(f"id,x\n{rows}7.5,2\n")
    (file,) = split_by_file(open_table(tmp_path / "t.csv"), ["x"])
    with pytest.raises(TableError, match=r"kind of those in the first rows. Got column 'id'"):
        list(file.table.chunks(["id", "x"]))
    (file,) = split_by_file(open_table(tmp_path / "t.csv"), ["id", "x"])
    assert sum(chunk.table.num_rows for chunk in file.table.chunks(["id"])) == 400_001


def test_a_table_in_memory_is_one_file() -> None:
    tables = MemoryTable(mixed(4), "mine")
    (file,) = split_by_file(tables, [])
    assert (file.path, file.table, file.size, file.schema()) == ("mine", tables, 4, tables.schema)
