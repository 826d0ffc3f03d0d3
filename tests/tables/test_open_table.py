from __future__ import annotations

from pathlib import Path

import pytest
from builders.tables import all_rows, houses

from sswim.tables import (
    ChunkedTable,
    CsvOptions,
    MemoryTable,
    TableError,
    open_table,
    read_small_table,
    read_table,
    write_table,
)
from sswim.tables.csv_table import CsvTable
from sswim.tables.parquet_table import ParquetTable

KINDS = {
    ".parquet": ParquetTable,
    ".csv": CsvTable,
    ".csv.gz": CsvTable,
    ".tsv": CsvTable,
    ".TSV.GZ": CsvTable,
    ".arrow": MemoryTable,
    ".feather": MemoryTable,
    ".PARQUET": ParquetTable,
    ".CSV.GZ": CsvTable,
}


@pytest.mark.parametrize("suffix", KINDS)
def test_a_file_is_opened_by_its_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"houses{suffix}"
    write_table(houses(), path)
    for each in (path, str(path)):
        tables = open_table(each)
        assert isinstance(tables, KINDS[suffix])
        assert isinstance(tables, ChunkedTable)
        assert tables.name == str(path)
        columns = ["town", "price"]
        assert all_rows(tables, columns, 2) == houses().select(columns).to_pylist()


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["a.parquet"], ParquetTable),
        (["a.parquet", "b/c.PARQUET"], ParquetTable),
        (["a.csv"], CsvTable),
        (["a.csv", "b/c.csv.gz"], CsvTable),
        (["a.tsv", "b/c.csv.gz", "d.tsv.gz"], CsvTable),
        (["a.csv", "_b.parquet", ".c.feather"], CsvTable),
    ],
)
def test_a_folder_is_opened_by_what_is_in_it(tmp_path: Path, names: list[str], kind: type) -> None:
    folder = tmp_path / "houses.parquet"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_table(houses(), folder / name)
    (folder / "_SUCCESS").touch()
    (folder / ".a.parquet.crc").touch()
    tables = open_table(folder)
    assert isinstance(tables, kind)
    assert tables.name == str(folder)
    n_files = sum(not name.startswith((".", "_")) for name in names)
    assert len(all_rows(tables, ["price"], 1)) == 4 * n_files


def test_a_path_without_a_table_is_refused_as_by_a_table_in_memory(tmp_path: Path) -> None:
    (tmp_path / "sheet.xlsx").touch()
    (tmp_path / "text.arrow").write_text("price,rooms\n1,2\n")
    for name in ("none.csv", "none", "sheet.xlsx", "text.arrow"):
        with pytest.raises(TableError) as expected:
            read_table(tmp_path / name)
        with pytest.raises(TableError) as caught:
            open_table(tmp_path / name)
        assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".arrow"])
def test_a_small_file_is_read_whole(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"houses{suffix}"
    write_table(houses(), path)
    size = open_table(path).nbytes
    small = open_table(path, memory=size)
    assert isinstance(small, MemoryTable)
    assert small.name == str(path)
    assert small.table.equals(read_table(path))
    assert isinstance(open_table(path, memory=size - 1), KINDS[suffix])
    assert read_small_table(path, size - 1) is None
    assert read_small_table(path, None) is None


def test_text_files_are_tables(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.txt").write_text("x y\n1 2\n")
    for path in (tmp_path, tmp_path / "a", tmp_path / "a" / "t.txt"):
        table = open_table(path, memory=2**20)
        assert table.schema.names == ["x", "y"]
        assert table.notes == ("Read with separator blanks; give --separator if this is wrong.",)


@pytest.mark.parametrize("memory", [None, 2**20])
def test_options_of_csv_files_count(tmp_path: Path, memory: int | None) -> None:
    (tmp_path / "t.csv").write_text("3;1,234\n")
    table = open_table(tmp_path / "t.csv", memory, CsvOptions(decimal=",", header=False))
    (chunk,) = table.chunks(["column 2", "column 1"])
    assert chunk.table.to_pylist() == [{"column 2": 1.234, "column 1": 3}]
    assert len(table.notes) == 1


def test_a_folder_is_never_read_whole(tmp_path: Path) -> None:
    write_table(houses(), tmp_path / "a.parquet")
    assert isinstance(open_table(tmp_path, memory=2**40), ParquetTable)
    assert read_small_table(tmp_path, 2**40) is None
