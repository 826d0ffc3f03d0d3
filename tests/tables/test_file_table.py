from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from builders.tables import all_rows, mixed

from sswim.tables import MemoryTable, open_table, split_by_file, write_table


def test_every_parquet_file_is_a_table(tmp_path: Path) -> None:
    table = mixed(10)
    pq.write_table(table.slice(0, 7), tmp_path / "a.parquet")
    reordered = table.slice(7).select(table.column_names[::-1])
    pq.write_table(reordered.replace_schema_metadata({"k": "v"}), tmp_path / "b.parquet")
    first, second = split_by_file(open_table(tmp_path))
    assert [first.path, second.path] == [str(tmp_path / f"{name}.parquet") for name in "ab"]
    assert (first.size, second.size) == (7, 3)
    assert first.as_written().schema == table.schema
    assert second.as_written().schema.names == table.column_names[::-1]
    assert second.as_written().schema.metadata == {b"k": b"v"}
    (chunk,) = second.table.chunks(["n"])
    assert chunk.table["n"].to_pylist() == [7, 8, 9]
    assert chunk.first == 0  # numbered within the file


def test_columns_of_folder_names_are_not_in_the_file(tmp_path: Path) -> None:
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(mixed(3), tmp_path / f"year={year}" / "a.parquet")
    for file, year in zip(split_by_file(open_table(tmp_path)), (2020, 2021), strict=True):
        assert file.as_written().schema == mixed(3).schema
        (chunk,) = file.table.chunks(["year", "n"])
        assert chunk.table.to_pylist() == [{"year": year, "n": number} for number in range(3)]


def test_every_csv_file_is_a_table(tmp_path: Path) -> None:
    table = mixed(10)
    write_table(table.slice(0, 7), tmp_path / "a.csv")
    write_table(table.slice(7).select(table.column_names[::-1]), tmp_path / "b.csv.gz")
    first, second = split_by_file(open_table(tmp_path))
    assert (first.size, second.size) == (7, 3)
    assert first.table.n_rows == 7
    assert all_rows(second.table, ["n", "town"], 1) == table.select(["n", "town"])[7:].to_pylist()


def test_a_table_in_memory_is_one_file() -> None:
    tables = MemoryTable(mixed(4), "mine")
    (file,) = split_by_file(tables)
    assert (file.path, file.table, file.size) == ("mine", tables, 4)
    assert file.as_written() is tables
