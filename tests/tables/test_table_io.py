from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import all_rows, dictionary, houses, mixed, small_chunks, views

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.tables import (
    CsvTable,
    MemoryTable,
    ParquetTable,
    TableError,
    append_columns,
    complete_rows,
    keep_rows,
    open_table,
    read_small_table,
    read_table,
    require_writable_suffix,
    write_table,
)


def test_the_text_type_of_polars_is_read_written_and_filtered(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a": pa.array(["x", "y", "x"], pa.string_view()),
            "b": views(["p", "q"], [0, 1, 1]),
            "y": [1.0, None, 3.0],
        }
    )
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    for source in (table, read_table(tmp_path / "t.arrow")):
        kept = keep_rows(source, complete_rows(source, ["y"]))
        write_table(kept, tmp_path / "t.csv")
        assert read_table(tmp_path / "t.csv").to_pylist() == kept.to_pylist()


def test_chunks_may_have_dictionaries_of_their_own(tmp_path: Path) -> None:
    chunks = [dictionary(["a", "b"], pa.string()), dictionary(["c", "b"], pa.string())]
    table = pa.table({"x": pa.chunked_array(chunks)})
    write_table(table, tmp_path / "t.arrow")
    assert read_table(tmp_path / "t.arrow").to_pydict() == {"x": ["a", "b", "c", "b"]}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.parquet", b"price,rooms\n1,2\n", "cannot be read as .parquet: .*magic bytes"),
        ("text.arrow", b"price,rooms\n1,2\n", "cannot be read as .arrow: "),
        ("text.csv.gz", b"price,rooms\n1,2\n", "cannot be read as .csv.gz: .*header"),
        (
            "cut.csv.gz",
            gzip.compress(b"a,b\n1,2\n", mtime=0)[:-4],
            "cannot be read as .csv.gz: Truncated",
        ),
        ("empty.parquet", b"", "cannot be read as .parquet: "),
        ("empty.feather", b"", "cannot be read as .feather: "),
        ("header.csv", b"a,b\n", "at least one row and one column. Got 0 rows and 2 columns"),
        ("sheet.xlsx", b"PK", r"must end in .parquet, .csv, .csv.gz, .tsv, .*, .feather\. Got"),
        ("houses.gz", b"", r"must end in .parquet"),
    ],
)
def test_a_file_that_is_no_table_is_named_and_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert repr(str(path)) in str(caught.value)


def test_a_path_without_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"Got '.*none.csv', which cannot be found"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(TableError, match=r"Got '.*folder.parquet', a folder"):
        read_table(tmp_path / "folder.parquet")


def test_parquet_with_a_name_twice_or_without_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), path)
    with pytest.raises(TableError, match=r"must be unique. Got several 'a'"):
        read_table(path)
    pq.write_table(pa.table({}), path)
    with pytest.raises(TableError, match="one column"):
        read_table(path)


def test_an_arrow_file_that_points_outside_itself_is_refused(tmp_path: Path) -> None:
    stray = pa.DictionaryArray.from_arrays(pa.array([0, 2**30]), pa.array(["a"]), safe=False)
    table = pa.table({"x": stray})
    path = tmp_path / "t.arrow"
    with pa.ipc.new_stream(str(path), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(TableError, match=r"cannot be read as .arrow"):
        read_table(path)


@pytest.mark.parametrize("name", ["out.txt", "out.txt.gz", "out", "csv", "out.csv.bz2"])
def test_an_unknown_suffix_is_refused_before_writing(tmp_path: Path, name: str) -> None:
    message = r"choose .csv or .tsv" if ".txt" in name else r"must end in .parquet"
    with pytest.raises(TableError, match=message):
        require_writable_suffix(tmp_path / name)
    with pytest.raises(TableError, match=message):
        write_table(houses(), tmp_path / name)
    assert not list(tmp_path.iterdir())
    require_writable_suffix("out.csv.gz")


def test_a_failure_to_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(TableError, match=r"cannot be written to '.*out.csv': .*list"):
        write_table(pa.table({"x": [[1.0]]}), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(TableError, match=r"Make the folder '.*missing' first"):
        write_table(houses(), tmp_path / "missing" / "out.csv")


def test_new_columns_stand_at_the_end_in_order() -> None:
    new = {"mean": np.array([1, 2, 3, 4], np.float32), "band": np.full(4, np.nan)}
    table = append_columns(houses(), new)
    assert table.column_names == [*houses().column_names, "mean", "band"]
    assert table.schema.types[-2:] == [pa.float64()] * 2
    assert table["mean"].to_pylist() == [1.0, 2.0, 3.0, 4.0]
    assert table["band"].null_count == 0
    assert table.select(houses().column_names).equals(houses())
    with pytest.raises(TableError, match=r"new names. Got 'price', which .*--prefix"):
        append_columns(houses(), {"mean": np.zeros(4), "price": np.zeros(4)})


KINDS = {
    ".parquet": ParquetTable,
    ".csv": CsvTable,
    ".csv.gz": CsvTable,
    ".tsv": CsvTable,
    ".tsv.gz": CsvTable,
    ".TSV.GZ": CsvTable,
    ".arrow": MemoryTable,
    ".feather": MemoryTable,
    ".PARQUET": ParquetTable,
    ".CSV.GZ": CsvTable,
}


@pytest.mark.parametrize("suffix", KINDS)
def test_a_file_is_written_and_opened_by_its_suffix_and_read_whole_if_it_is_small(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"houses{suffix}"
    write_table(houses(), path)
    assert list(tmp_path.iterdir()) == [path]
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == suffix.lower().endswith("gz")
    assert read_table(path).equals(houses())
    table = open_table(str(path))
    assert isinstance(table, KINDS[suffix])
    assert table.name == str(path)
    columns = ["town", "price"]
    assert all_rows(table, columns, 2) == houses().select(columns).to_pylist()
    small = open_table(path, memory=table.nbytes)
    assert isinstance(small, MemoryTable)
    assert small.name == str(path)
    assert small.table.equals(houses())
    assert isinstance(open_table(path, memory=table.nbytes - 1), KINDS[suffix])
    assert read_small_table(path, table.nbytes - 1) is None
    assert read_small_table(path, None) is None


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["a.parquet", "b/c.PARQUET"], ParquetTable),
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


def test_a_table_in_memory_has_spans_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    small_chunks(monkeypatch, 3)
    table = mixed(10)
    tables = MemoryTable(table, "mine")
    assert (tables.n_rows, tables.nbytes, tables.schema) == (10, table.nbytes, table.schema)
    assert [chunk.first for chunk in tables.chunks(["n"], Share(1, 2))] == [5, 8]
    assert {chunk.file for chunk in tables.chunks(["n"], ALL_ROWS)} == {"mine"}
    for size in (1, 3, 100):
        assert all_rows(tables, ["f", "n"], size) == table.select(["f", "n"]).to_pylist()


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
        open_table(tmp_path)
