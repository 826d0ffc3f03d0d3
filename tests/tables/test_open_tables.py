from __future__ import annotations

from pathlib import Path

import pytest
from builders.tables import all_rows, houses

from sswim.tables.csv_tables import CsvTables
from sswim.tables.open_tables import open_tables
from sswim.tables.parquet_tables import ParquetTables
from sswim.tables.table_io import TableError, read_table, write_table
from sswim.tables.table_parts import MemoryTables, Tables

KINDS = {
    ".parquet": ParquetTables,
    ".csv": CsvTables,
    ".csv.gz": CsvTables,
    ".arrow": MemoryTables,
    ".feather": MemoryTables,
    ".PARQUET": ParquetTables,
    ".CSV.GZ": CsvTables,
}


@pytest.mark.parametrize("suffix", KINDS)
def test_a_file_is_opened_by_its_suffix(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"houses{suffix}"
    write_table(houses(), path)
    for each in (path, str(path)):
        tables = open_tables(each)
        assert isinstance(tables, KINDS[suffix])
        assert isinstance(tables, Tables)
        assert tables.name == str(path)
        columns = ["town", "price"]
        assert all_rows(tables, columns, 2) == houses().select(columns).to_pylist()


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["a.parquet"], ParquetTables),
        (["a.parquet", "b/c.PARQUET"], ParquetTables),
        (["a.csv"], CsvTables),
        (["a.csv", "b/c.csv.gz"], CsvTables),
        (["a.csv", "_b.parquet", ".c.feather"], CsvTables),
    ],
)
def test_a_folder_is_opened_by_what_is_in_it(tmp_path: Path, names: list[str], kind: type) -> None:
    folder = tmp_path / "houses.parquet"
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_table(houses(), folder / name)
    (folder / "_SUCCESS").touch()
    (folder / ".a.parquet.crc").touch()
    tables = open_tables(folder)
    assert isinstance(tables, kind)
    assert tables.name == str(folder)
    n_files = sum(not name.startswith((".", "_")) for name in names)
    assert len(all_rows(tables, ["price"], 1)) == 4 * n_files


@pytest.mark.parametrize(
    ("names", "got"),
    [
        ([], "none"),
        (["_a.parquet", "b/.c.csv"], "none"),
        (["a.csv", "b.parquet"], "'a.csv', 'b.parquet'"),
        (["a.feather"], "'a.feather'"),
        (["a.csv", "b/c.txt"], "'a.csv', 'b.c.txt'"),
        (["README.md"], "'README.md'"),
    ],
)
def test_a_folder_of_anything_else_is_refused(tmp_path: Path, names: list[str], got: str) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(TableError, match=rf"and no others\. Got {got} in '.*underscore"):
        open_tables(tmp_path)


def test_a_path_without_a_table_is_refused_as_by_a_table_in_memory(tmp_path: Path) -> None:
    (tmp_path / "sheet.xlsx").touch()
    (tmp_path / "text.arrow").write_text("price,rooms\n1,2\n")
    for name in ("none.csv", "none", "sheet.xlsx", "text.arrow"):
        with pytest.raises(TableError) as expected:
            read_table(tmp_path / name)
        with pytest.raises(TableError) as caught:
            open_tables(tmp_path / name)
        assert str(caught.value) == str(expected.value)
