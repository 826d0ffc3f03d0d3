from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest
from builders.tables import all_rows, mixed, shares, small_chunks

from sswim.tables import (
    AS_FOUND,
    CsvFile,
    CsvNames,
    CsvOptions,
    CsvScan,
    CsvTable,
    TableError,
    csv_table,
    merge_types,
    read_csv,
    read_names,
    read_table,
    split_by_file,
    write_table,
)


def opened(folder: Path, text: str | bytes, options: CsvOptions = AS_FOUND) -> CsvFile:
    path = folder / "t.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return CsvFile.open(path, options)


@pytest.mark.parametrize(
    "text",
    [
        "x,y\n1,a\n,b\n3,\n",
        '"x",y\r\n1,a\r\n,"b"\r\n3,""',
        "\n\r\nx,y\n\n1,a\n,b\n3,\n\n",
        "\ufeffx,y\n1,a\nNA,b\n3,NULL\n",
        "x;y\n1;a\n;b\n3;",
        "x\ty\n1\ta\n\tb\n3\t\n",
        "x,y\r1,a\r,b\r3,\r",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
def test_the_same_rows_are_read_however_they_are_written(
    tmp_path: Path, text: str, encoding: str
) -> None:
    text = text if encoding == "utf-8" else text.removeprefix("\ufeff")
    file = opened(tmp_path, text.encode(encoding))
    expected = {"x": [1, None, 3], "y": ["a", "b", None]}
    assert file.read({}).to_pydict() == expected
    types = {"x": pa.int64(), "y": pa.string()}
    batches = list(file.stream(types, ["y"]))
    assert pa.Table.from_batches(batches).to_pydict() == {"y": expected["y"]}
    (part,) = file.parts({})
    assert part.to_pydict() == expected


def test_parts_are_all_rows_with_types_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_table, "PASS_BYTES", 8)
    monkeypatch.setattr(csv_table, "blocks", lambda stream: iter(lambda: stream.read(4), b""))
    file = opened(tmp_path, 'x,y\n1,"a\nb"\n2.5,c\n\nz,"d"\n')
    parts = [part for part in file.parts({}) if part.num_rows]
    assert [part.schema.field("x").type for part in parts] == [
        pa.int64(),
        pa.float64(),
        pa.string(),
    ]
    assert [value for part in parts for value in part["y"].to_pylist()] == ["a\nb", "c", "d"]
    assert {tuple(part.column_names) for part in file.parts({}, ["y"])} == {("y",)}


def test_a_file_may_have_no_header(tmp_path: Path) -> None:
    file = opened(tmp_path, "\n3,a\n1,b\n", CsvOptions(header=False))
    assert file.read({}).to_pydict() == {"column 1": [3, 1], "column 2": ["a", "b"]}


def test_blanks_may_separate_cells(tmp_path: Path) -> None:
    file = opened(tmp_path, '  x    "y"\n 1.5    "2"\n\n  -3\t 4  \n')
    assert file.dialect.separator == " "
    assert file.read({}).to_pydict() == {"x": [1.5, -3.0], "y": [2, 4]}
    (part,) = file.parts({})
    assert part.equals(file.read({}))
    batches = file.stream({"y": pa.int64()}, ["y"])
    assert pa.Table.from_batches(batches).to_pydict() == {"y": [2, 4]}


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "\n\na,b", '"a\n",b\r\n\r\n'])
def test_a_file_may_have_no_rows(tmp_path: Path, text: str) -> None:
    file = opened(tmp_path, text)
    assert file.read({}).shape == (0, 2)
    assert sum(part.num_rows for part in file.parts({})) == 0
    assert list(file.stream({"b": pa.null()}, ["b"])) == []


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (b"", AS_FOUND, "t.csv' cannot be read as .csv: Empty CSV file"),
        (b"\n\n", AS_FOUND, "t.csv' cannot be read as .csv: Empty CSV file"),
        (b"a,b\n1,2\n3\n", AS_FOUND, "t.csv' cannot be read as .csv: .*Expected 2 columns"),
        (
            b"a,b\n1,\xe4\n",
            CsvOptions(encoding="utf-8"),
            "t.csv' cannot be read as .csv: .*utf-8.*--encoding",
        ),
        (
            b"a,b\n1,\xe4\n",
            CsvOptions(encoding="ascii"),
            "t.csv' cannot be read as .csv: .*--encoding",
        ),
        (b"\xe4,b\n1,2\n", CsvOptions(encoding="utf-8"), "cannot be read as .csv: .*utf-8"),
        (b"a,b\n1,\x81\n", CsvOptions(encoding="cp1252"), "cannot be read as .csv: .*charmap"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes, options: CsvOptions, message: str
) -> None:
    with pytest.raises(TableError, match=message):
        opened(tmp_path, content, options).read({})


def names(*header: str, is_header: bool | None = None) -> CsvNames:
    return read_names(header, "t.csv", is_header)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (("a", "a", "a"), ("a", "a.1", "a.2")),
        (("a", "a", "a.1"), ("a", "a.2", "a.1")),
        (("a.1", "a", "a"), ("a.1", "a", "a.2")),
    ],
)
def test_names_become_unique(header: tuple[str, ...], expected: tuple[str, ...]) -> None:
    found = names(*header)
    assert found.names == expected
    assert len(found.notes) == len(header) - len({*header})
    assert "is called 'a" in found.notes[0]


def test_columns_without_a_name_get_one() -> None:
    found = names("a", "", "column 2", " ")
    assert found.names == ("a", "column 2.1", "column 2", "column 4")
    assert found.unnamed == ("column 2.1", "column 4")
    assert found.index is None


@pytest.mark.parametrize(("first", "index"), [("", "column 1"), ("Unnamed: 0", "Unnamed: 0")])
def test_a_first_column_may_count_the_rows(first: str, index: str) -> None:
    assert names(first, "a").index == index


def test_blanks_around_names_are_left_out_and_told() -> None:
    found = names("a", " b", "c ")
    assert found.names == ("a", "b", "c")
    assert found.notes == ("Blanks around the names ' b', 'c ' are left out.",)


def test_increasing_numbers_may_be_names() -> None:
    found = names("2019", "2020", "2021.5")
    assert found.names == ("2019", "2020", "2021.5")
    (note,) = found.notes
    assert "'2019', '2020', '2021.5'; give --no-header if" in note
    assert names("2019", "2020", is_header=True).notes == ()


@pytest.mark.parametrize("header", [("5",), ("3", "1"), ("1.5", "-2e3", ".5"), ("1", "1")])
def test_other_numbers_are_refused_as_names(header: tuple[str, ...]) -> None:
    with pytest.raises(TableError, match=r"first line must have the names.*--no-header.*--header"):
        names(*header)
    assert names(*header, is_header=True).names[0] == header[0]


def test_a_file_without_a_header_has_numbered_columns() -> None:
    found = names("1", "", "x", is_header=False)
    assert found == CsvNames(("column 1", "column 2", "column 3"))


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pa.int64(), pa.int64(), pa.int64()),
        (pa.null(), pa.string(), pa.string()),
        (pa.int64(), pa.float64(), pa.float64()),
        (pa.int64(), pa.bool_(), pa.string()),
        (pa.date32(), pa.timestamp("s"), pa.timestamp("s")),
        (pa.date32(), pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ns")),
        (pa.timestamp("s"), pa.timestamp("s", "UTC"), pa.string()),
        (pa.date32(), pa.time32("s"), pa.string()),
        (pa.float64(), pa.date32(), pa.string()),
    ],
)
def test_a_type_suits_both_parts(one: pa.DataType, other: pa.DataType, both: pa.DataType) -> None:
    assert merge_types(one, other) == both
    assert merge_types(other, one) == both


def scanned(folder: Path, text: str, options: CsvOptions = AS_FOUND) -> tuple[list[str], list[str]]:
    """Return the columns that remain, and what is said."""
    path = folder / "t.csv"
    path.write_text(text)
    file = CsvFile.open(path, options)
    scan = CsvScan()
    scan.add(file, file.parts(file.text_types(options)))
    left_out = scan.left_out(file, options)
    return [name for name in file.names if name not in left_out], [*scan.notes(file, options)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (",x\n0,5\n1,6\n2,7\n", ["x"]),
        (",x\n1,5\n2,6\n", ["x"]),
        ("Unnamed: 0,x\n0,5\n1,6\n", ["x"]),
        (",x\n2,5\n3,6\n", ["column 1", "x"]),
        (",x\n0,5\n2,6\n", ["column 1", "x"]),
        (",x\n1990,5\n1991,6\n", ["column 1", "x"]),
        (",x\na,5\nb,6\n", ["column 1", "x"]),
        (",x\n0,5\n,6\n", ["column 1", "x"]),
        ("n,x\n0,5\n1,6\n", ["n", "x"]),
        ("Unnamed: 0,x\n4,5\n1,6\n", ["Unnamed: 0", "x"]),
        (",\n0,5\n1,6\n", ["column 2"]),
    ],
)
def test_a_column_that_only_counts_the_rows_is_left_out(
    tmp_path: Path, text: str, names: list[str]
) -> None:
    found, notes = scanned(tmp_path, text)
    assert found == names
    assert any("only counts the rows: it is left out; give --keep-index" in n for n in notes) == (
        "column 1" not in names and text.startswith((",", "U")) and "Unnamed: 0" not in names
    )
    kept, _ = scanned(tmp_path, text, CsvOptions(keep_index=True))
    assert len(kept) == 2


def test_columns_without_a_name_are_told(tmp_path: Path) -> None:
    found, notes = scanned(tmp_path, "x,,\n1,2,\n3,4,NA\n")
    assert found == ["x", "column 2"]
    assert notes == [
        "Column 3 has neither a name nor values: it is left out.",
        "Column 2 has no name: it is called 'column 2'.",
    ]


def test_a_model_decides_about_columns(tmp_path: Path) -> None:
    options = CsvOptions().for_model(["x"])
    assert scanned(tmp_path, ",x,\n0,01,\n1,2,\n", options) == (["column 1", "x", "column 3"], [])


def test_leading_zeros_are_told_unless_they_are_text(tmp_path: Path) -> None:
    text = "zip code,b,c\n00123,0,01x\n1,0.5,02\n"
    _, (note,) = scanned(tmp_path, text)
    assert note == (
        "Column 'zip code' has leading zeros, such as '00123': it is read as a number; give "
        "--text 'zip code' if these are codes."
    )
    assert scanned(tmp_path, text, CsvOptions(text=("zip code",)))[1] == []


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
@pytest.mark.parametrize("size", [1, 3, 100])
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


KINDS = [
    "x,y\n1,2\n",
    ",x,x\n0,1.5,a\n1,,b\n",
    "größe;y;\n1,5;00123;\n2,25;7;\n",
    "x\ty\n2020-01-01T10:00:00+02:00\tNA\n2020-01-02T10:00:00Z\t\n",
]


@pytest.mark.parametrize("text", KINDS)
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_a_file_is_the_same_table_in_chunks(tmp_path: Path, text: str, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    whole, table = read_csv(path), CsvTable.open(path)
    assert table.notes == whole.notes
    assert table.schema.equals(whole.table.schema)
    (chunk,) = table.chunks(table.schema.names)
    assert chunk.table.equals(whole.table)


COLUMNS = {
    "id": (["1", "9223372036854775807"], pa.int64()),
    "zip": (["00001", "7"], pa.string()),
    "long": (["1", "99999999999999999999"], pa.string()),
    "mixed": (["0.5", "1234567890123456"], pa.string()),
    "phone": (["+4912345", "2"], pa.string()),
    "number": (["0.50", "-1e3"], pa.float64()),
    "zeros": (["0", "-0.25"], pa.float64()),
    "gaps": (["NA", "3"], pa.int64()),
    "text": (["x", "001"], pa.string()),
    "day": (["2020-01-01", "2020-02-01"], pa.date32()),
    "local": (["2020-01-01 10:00:00", "2020-02-01"], pa.timestamp("s")),
    "zoned": (["2020-01-01T10:00:00+02:00", "2020-02-01T00:00:00Z"], pa.string()),
    "yes": (["true", "false"], pa.bool_()),
    "nothing": (["", ""], pa.null()),
}
"""Cells of columns, and the type that keeps them."""


@pytest.mark.parametrize("pass_bytes", [1, 2**24])
def test_types_keep_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pass_bytes: int
) -> None:
    monkeypatch.setattr(csv_table, "PASS_BYTES", pass_bytes)
    rows = zip(*(cells for cells, _ in COLUMNS.values()), strict=True)
    lines = ["," + ",".join(COLUMNS), *(f"{n}," + ",".join(row) for n, row in enumerate(rows))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    table = CsvTable.open(tmp_path / "t.csv")
    assert table.schema.names == list(COLUMNS)
    (file,) = split_by_file(table)
    written = file.as_written()
    assert written.schema.names == ["column 1", *COLUMNS]
    types = {"column 1": pa.string()} | {name: dtype for name, (_, dtype) in COLUMNS.items()}
    assert dict(zip(written.schema.names, written.schema.types, strict=True)) == types
    (chunk,) = written.chunks(written.schema.names)
    for name in ("zip", "long", "mixed", "phone", "zoned"):
        assert chunk.table[name].to_pylist() == COLUMNS[name][0]
    assert chunk.table["id"].to_pylist() == [1, 2**63 - 1]


def test_numbers_with_a_decimal_comma_are_kept(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n0,5;00\n-1,25;1\n")
    types = CsvTable.open(tmp_path / "t.csv").written_types
    assert types == {"a": pa.float64(), "b": pa.string()}


def test_all_files_of_a_folder_have_the_same_types(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,zip\n1,2\n")
    (tmp_path / "b.csv").write_text("zip,x\n007,2.5\n")
    first, second = split_by_file(CsvTable.open(tmp_path))
    assert first.as_written().schema == pa.schema([("x", pa.float64()), ("zip", pa.string())])
    assert second.as_written().schema == pa.schema([("zip", pa.string()), ("x", pa.float64())])
