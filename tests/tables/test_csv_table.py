from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from builders.tables import all_rows, mixed, rows_of, shares, small_chunks

from sswim.tables import TableError, csv_table, read_table, write_table
from sswim.tables.csv_table import CsvTable

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
    assert tables.n_rows == 97
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


@pytest.mark.parametrize(
    ("first", "value", "dtype", "expected"),
    [
        ("1", "1.5", pa.float64(), 1.5),
        ("1", "", pa.int64(), None),
        ("", "1.5", pa.float64(), 1.5),
        ("1.5", "oops", pa.string(), "oops"),
        ("", "oops", pa.string(), "oops"),
        ("1", "2020-01-01", pa.string(), "2020-01-01"),
        ("2020-01-01", "soon", pa.string(), "soon"),
        ("2020-01-01", "2020-01-01 00:00:01.5", pa.timestamp("ns"), "2020-01-01 00:00:01.500000"),
        ("2020-01-01 00:00:00", "2020-01-02", pa.timestamp("s"), "2020-01-02 00:00:00"),
        ("true", "perhaps", pa.string(), "perhaps"),
        ("a", "1", pa.string(), "1"),
    ],
)
def test_a_late_value_counts_as_an_early_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
    value: str,
    dtype: pa.DataType,
    expected: object,
) -> None:
    monkeypatch.setattr(csv_table, "PASS_BYTES", BLOCK // 4)
    path = folder_of(tmp_path, {"t.csv": late(value, first)}) / "t.csv"
    table = CsvTable.open(path)
    assert table.schema.field("x").type == dtype
    assert table.schema.equals(read_table(path).schema)
    assert table.notes == ()
    found = pa.chunked_array([each for c in table.chunks(["x"]) for each in c.table["x"].chunks])
    assert found.equals(read_table(path)["x"])
    last = found[-1].as_py()
    assert (str(last) if isinstance(expected, str) else last) == expected


def test_types_suit_all_files(tmp_path: Path) -> None:
    contents = {"a.csv": "x,z,y\n1,2,3\n", "b.csv": "y,x,z\n1,2.5,oops\n", "c.csv": "x,y,z\n"}
    table = CsvTable.open(folder_of(tmp_path, contents))
    assert table.schema.types == [pa.float64(), pa.string(), pa.int64()]
    assert table.file_rows == (1, 1, 0)
    assert all_rows(table, ["z", "x"], 1) == [{"z": "2", "x": 1.0}, {"z": "oops", "x": 2.5}]


def test_files_of_a_folder_may_have_dialects_of_their_own(tmp_path: Path) -> None:
    contents = {"a.csv": "x,y\n1.5,2\n", "b.csv": "x;y\n2,5;3\n", "c.tsv": "x\ty\n3.5\t4\n"}
    table = CsvTable.open(folder_of(tmp_path, contents))
    expected = [{"x": i + 1.5, "y": i + 2} for i in range(3)]
    assert all_rows(table, ["x", "y"], 2) == expected
    (note,) = table.notes
    assert note.startswith("Read with separator ';' and decimal comma")


def test_an_index_counts_the_rows_of_each_file_or_of_all(tmp_path: Path) -> None:
    for starts in ((0, 0), (0, 2), (1, 3), (1, 1)):
        contents = {
            f"{file}.csv": f",x\n{start},0.5\n{start + 1},1.5\n"
            for file, start in zip("ab", starts, strict=True)
        }
        table = CsvTable.open(folder_of(tmp_path, contents))
        assert table.schema.names == ["x"]
        assert table.notes == (
            "Column 1 has no name and only counts the rows: it is left out; give --keep-index to "
            "use it.",
        )
    folder_of(tmp_path, {"b.csv": ",x\n7,0.5\n"})
    assert CsvTable.open(tmp_path).schema.names == ["column 1", "x"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "b.csv' cannot be read as .csv: Empty CSV file"),
        ("x\n1\n", r"Got 'y' in '.*a.csv' and not in '.*b.csv'"),
        ("x,y,z\n1,2,3\n", r"Got 'z' in '.*b.csv' and not in '.*a.csv'"),
        ("x,y,x\n1,2,3\n", r"Got 'x.1' in '.*b.csv' and not in '.*a.csv'"),
        ("x,y\n1,2\n3\n", r"b.csv' cannot be read as .csv: .*Expected 2 columns"),
    ],
)
def test_a_file_that_does_not_fit_is_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        CsvTable.open(folder_of(tmp_path, {"a.csv": "x,y\n1,2\n", "b.csv": content}))


def test_what_is_broken_further_down_is_found(tmp_path: Path) -> None:
    folder_of(tmp_path, {"ragged.csv": late("1,2"), "cut.csv.gz": late("1")})
    with pytest.raises(TableError, match=r"ragged.csv' cannot be read as .csv: .*Expected 2"):
        CsvTable.open(tmp_path / "ragged.csv")
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(cut.read_bytes()[:-20])
    with pytest.raises(TableError, match=r"cut.csv.gz' cannot be read as .csv.gz: Truncated"):
        CsvTable.open(cut)
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
