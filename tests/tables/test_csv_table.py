from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from builders.tables import all_rows, houses, mixed, rows_of, shares, small_chunks

from sswim.tables.csv_table import CsvTable
from sswim.tables.schema import Schema
from sswim.tables.table_io import TableError, read_table, write_table

BLOCK = 2**20
"""Number of bytes that are read from a file at once."""


def folder_of(folder: Path, contents: dict[str, str]) -> Path:
    for name, content in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return folder


def late(value: str, first: str = "1") -> str:
    """Return a file whose last value of x lies beyond the first block."""
    return "x,y\n" + f"{first},2.5\n" * (BLOCK // (len(first) + 5) + 1) + f"{value},2.5\n"


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".CSV"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_shares_of_a_file_are_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, size: int
) -> None:
    small_chunks(monkeypatch, 10)
    path = tmp_path / f"t{suffix}"
    write_table(mixed(97).drop_columns(["day"]), path)
    tables = CsvTable.open(path)
    assert tables.n_rows is None
    assert all_rows(tables, tables.schema.names, size) == read_table(path).to_pylist()
    firsts = [[chunk.first for chunk in tables.chunks(["n"], share)] for share in shares(size)]
    assert firsts[0][:2] == [0, 10 * size][: len(firsts[0])]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_shares_of_a_folder_are_all_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    small_chunks(monkeypatch, 4)
    contents = {
        "a.csv": "x,y\n",
        "b.csv": "x,y\n" + "".join(f"{i},t{i}\n" for i in range(7)),
        "c/d.csv.gz": "y,x\n" + "".join(f"t{i},{i}\n" for i in range(7, 19)),
        "_e.csv": "nothing",
        ".f.csv": "",
        "g.csv": "x,y\n19,t19\n",
    }
    tables = CsvTable.open(folder_of(tmp_path, contents))
    expected = [{"y": f"t{i}", "x": float(i)} for i in range(20)]
    assert all_rows(tables, ["y", "x"], size) == expected
    places = {chunk.first: Path(chunk.file).name for chunk in tables.chunks(["x"])}
    assert places[19] == "g.csv"
    assert places[7] == "d.csv.gz"


def test_many_blocks_are_one_table(tmp_path: Path) -> None:
    n_rows = 200_000
    text = "x,y\n" + "".join(f"{i},{i / 4}\n" for i in range(n_rows))
    assert len(text) > 2 * BLOCK
    tables = CsvTable.open(folder_of(tmp_path, {"t.csv": text}) / "t.csv")
    chunks = list(tables.chunks(["y", "x"]))
    assert [chunk.table.num_rows for chunk in chunks] == [65_536] * 3 + [n_rows - 3 * 65_536]
    numbers = pa.concat_tables(chunk.table for chunk in chunks)
    assert numbers["x"].to_numpy().tolist() == list(range(n_rows))
    assert numbers["y"].to_numpy().tolist() == [i / 4 for i in range(n_rows)]


def test_cells_mean_what_they_mean_in_a_table_in_memory(tmp_path: Path) -> None:
    text = 'n,text,quoted\n1,"a, b","1"\n,"say ""hi""\nagain",""\nNA,,"3"\n'
    path = folder_of(tmp_path, {"t.csv": text}) / "t.csv"
    tables = CsvTable.open(path)
    assert all_rows(tables, tables.schema.names, 1) == read_table(path).to_pylist()


def test_types_leave_room_for_what_may_follow(tmp_path: Path) -> None:
    text = "i,f,b,s,d,t,z,n\n1,1.5,true,a,2020-01-01,2020-01-01 10:00:00,2020-01-01T10:00:00Z,\n"
    tables = CsvTable.open(folder_of(tmp_path, {"t.csv": text}) / "t.csv")
    assert tables.schema.types == [
        pa.float64(),
        pa.float64(),
        pa.bool_(),
        pa.string(),
        pa.timestamp("us"),
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.float64(),
    ]


@pytest.mark.parametrize(
    ("first", "value", "expected"),
    [
        ("1", "1.5", 1.5),
        ("1", "", None),
        ("", "1.5", 1.5),
        ("2020-01-01", "2020-01-01 00:00:01.5", "2020-01-01 00:00:01.500000"),
        ("2020-01-01 00:00:00", "2020-01-02", "2020-01-02 00:00:00"),
        ("a", "1", "1"),
    ],
)
def test_a_late_value_may_be_of_another_type_of_the_same_kind(
    tmp_path: Path, first: str, value: str, expected: object
) -> None:
    path = folder_of(tmp_path, {"t.csv": late(value, first)}) / "t.csv"
    last = list(CsvTable.open(path).chunks(["x"]))[-1].table["x"][-1].as_py()
    assert (str(last) if isinstance(expected, str) else last) == expected


@pytest.mark.parametrize(
    ("first", "value", "message"),
    [
        (
            "1",
            "abc",
            r"column 'x' of '.*t.csv', which was taken for numbers: invalid value 'abc'; ",
        ),
        ("", "abc", r"taken for numbers, having no value there: invalid value 'abc'"),
        ("2020-01-01", "soon", r"taken for dates or times: invalid value 'soon'"),
        ("true", "perhaps", r"taken for numbers: invalid value 'perhaps'"),
        ("10:00:00", "late", r"taken for time32\[s\]: invalid value 'late'"),
    ],
)
def test_a_late_value_of_another_kind_is_named(
    tmp_path: Path, first: str, value: str, message: str
) -> None:
    tables = CsvTable.open(folder_of(tmp_path, {"t.csv": late(value, first)}) / "t.csv")
    with pytest.raises(TableError, match=message + ".*--drop x") as caught:
        list(tables.chunks(["y", "x"]))
    assert "Parquet" in str(caught.value)
    assert sum(chunk.table.num_rows for chunk in tables.chunks(["y"])) > BLOCK // 20


def test_a_value_of_another_kind_is_named_by_the_columns_of_its_own_file(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a.csv": "x,z,y\n1,2,3\n", "b.csv": "y,x,z\n1,2,oops\n"})
    with pytest.raises(TableError, match=r"column 'z' of '.*b.csv'.*'oops'"):
        list(CsvTable.open(folder).chunks(["x", "z"]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "b.csv' cannot be read as .csv: Empty"),
        ("x\n1\n", r"Got 'y' in '.*a.csv' and not in '.*b.csv'"),
        ("x,y,z\n1,2,3\n", r"Got 'z' in '.*b.csv' and not in '.*a.csv'"),
        ("x,y,x\n1,2,3\n", r"several 'x' in '.*b.csv'"),
        ("x,y\n1,2\n3\n", r"b.csv' cannot be read as .csv: .*Expected 2 columns"),
    ],
)
def test_a_file_that_does_not_fit_is_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        CsvTable.open(folder_of(tmp_path, {"a.csv": "x,y\n1,2\n", "b.csv": content}))


def test_names_in_another_encoding_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    path.write_bytes("größe,b\n1,2\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"latin.csv' cannot be read as .csv: .*utf-8"):
        CsvTable.open(path)


def test_what_is_broken_further_down_is_found_when_it_is_read(tmp_path: Path) -> None:
    folder_of(tmp_path, {"ragged.csv": late("1,2"), "cut.csv.gz": late("1")})
    with pytest.raises(TableError, match=r"ragged.csv' cannot be read as .csv: .*Expected 2"):
        list(CsvTable.open(tmp_path / "ragged.csv").chunks(["x"]))
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(cut.read_bytes()[:-20])
    with pytest.raises(TableError, match=r"cut.csv.gz' cannot be read as .csv.gz: Truncated"):
        list(CsvTable.open(cut).chunks(["x"]))
    cut.write_bytes(b"price,rooms\n1,2\n")
    with pytest.raises(TableError, match=r"cut.csv.gz' cannot be read as .csv.gz: .*header"):
        CsvTable.open(cut)


def test_a_table_without_rows_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a.csv": "x,y\n", "b.csv": "x,y\n"})
    with pytest.raises(TableError, match=r"one row .*Got 0 rows and 2 columns in '"):
        CsvTable.open(folder)


def test_bytes_are_estimated_from_the_files(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, {"a.csv": late("1"), "b.csv.gz": late("1")})
    plain, packed = ((folder / name).stat().st_size for name in ("a.csv", "b.csv.gz"))
    assert CsvTable.open(folder).nbytes == plain + 6 * packed


def test_reading_may_end_early(tmp_path: Path) -> None:
    tables = CsvTable.open(folder_of(tmp_path, {"t.csv": late("oops")}) / "t.csv")
    assert next(tables.chunks(["x"])).table.num_rows == 65_536
    assert rows_of(tables, ["y"], next(shares(1)))[0] == {"y": 2.5}


def test_rows_are_encoded_as_those_of_a_table_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    write_table(houses(), path)
    schema = Schema.learn(houses(), "price")
    (chunk,) = CsvTable.open(path).chunks(houses().column_names)
    assert schema.encode(chunk.table).tolist() == schema.encode(read_table(path)).tolist()
