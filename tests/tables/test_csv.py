from __future__ import annotations

import codecs
import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from builders.tables import all_rows, small_chunks
from hypothesis import given, settings
from hypothesis import strategies as st

from sswim.base.validation import UserError
from sswim.tables import (
    AS_FOUND,
    CsvOptions,
    CsvTable,
    TableError,
    csv_table,
    read_table,
)
from sswim.tables.csv_dialect import CsvDialect
from sswim.tables.csv_table import CsvFile


def write(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    """Write a text to a file, compressed if its name says so."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    return path


def opened(
    folder: Path, text: str | bytes, options: CsvOptions = AS_FOUND, name: str = "t.csv"
) -> CsvFile:
    return CsvFile.open(write(folder, text, name), options)


def folder_of(folder: Path, contents: dict[str, str]) -> Path:
    for name, content in contents.items():
        write(folder, content, name)
    return folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"separator": ",,"}, "separator must be one character.*Got ',,'"),
        ({"separator": ""}, "separator must be one character"),
        ({"separator": '"'}, "no letter, digit or quote"),
        ({"separator": "a"}, "no letter, digit or quote"),
        ({"separator": "§"}, "separator must be one character"),
        ({"decimal": ";"}, "decimal mark must be '.' or ','. Got ';'"),
        ({"encoding": "utf-9"}, "encoding must be the name.*Got 'utf-9'"),
        ({"encoding": "base64"}, "encoding must be the name.*Got 'base64'"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CsvOptions(**options)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n",
        "a\nx y\nz w\n",
        "a,b\nx;y,1\nz;w,2\n",
        "a,b\n1,2\n3\n",
        "date,b\n2020-01-01 10:00:00,2\n",
        'a,"b;c|d"\n1,"2;3|4"\n',
        "\n\na,b\n\n1,2\n",
        'a,b\n"1,234,567","1,234"\n',
        'a,b\n"1,234.5","1,234"\n',
    ],
)
def test_a_usual_file_has_the_usual_dialect_and_no_notes(tmp_path: Path, text: str) -> None:
    for name in ("t.csv", "t.csv.gz"):
        file = opened(tmp_path, text, name=name)
        assert file.dialect == CsvDialect()
        assert file.notes == ()


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("a;b\n1,5;2\n", ";", ","),
        ("x,m;y,m\n1,5;2,5\n", ";", ","),
        ("a;b\n1.234,5;2\n", ";", ","),
        ("a;b\n-,5e-3;2\n", ";", ","),
        ("a\tb\n1\t2\n", "\t", "."),
        ("  a   b\n -1.5 2\n 3 4\n", " ", "."),
        ("a\n1,5\n2,5\n", ";", ","),
        ('a,b\n"1,5","x"\n"2,25","y"\n', ",", ","),
        ("a;b\n1;2;\n", ";", "."),
        ("a;b\n", ";", "."),
    ],
)
def test_a_dialect_is_found_and_told(
    tmp_path: Path, text: str, separator: str, decimal: str
) -> None:
    file = opened(tmp_path, text)
    assert file.dialect == CsvDialect(separator, decimal)
    (note,) = file.notes
    assert note.startswith("Read with ")
    assert ("--separator" in note) == (separator != ",")
    assert ("decimal comma" in note) == (decimal == ",")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;b\n1,5;2.5\n", "decimal comma, such as '1,5', and some a decimal point, such as '2.5'"),
        ("a;b\n1,234;2\n", "Commas in numbers such as '1,234' are taken to group thousands"),
    ],
)
def test_a_doubt_is_told_and_the_point_kept(tmp_path: Path, text: str, words: str) -> None:
    file = opened(tmp_path, text)
    assert file.dialect.decimal == "."
    assert any(words in note and "--decimal" in note for note in file.notes)
    with_comma = opened(tmp_path, text, CsvOptions(decimal=","))
    assert with_comma.dialect.decimal == ","
    assert not any("--decimal" in note for note in with_comma.notes)


def test_given_options_are_neither_looked_for_nor_told(tmp_path: Path) -> None:
    options = CsvOptions(separator="~", decimal=",", encoding="cp1252")
    file = opened(tmp_path, "größe~b\n1;5~2,5\n".encode("cp1252"), options)
    assert file.dialect.describe() == "separator '~', decimal comma, encoding cp1252"
    assert file.read({}).to_pydict() == {"größe": ["1;5"], "b": [2.5]}
    assert file.notes == ()


def test_the_dialect_of_long_lines_is_found(tmp_path: Path) -> None:
    header = ";".join(f"a long name {i}" for i in range(10_000))
    row = ";".join(["1,5"] * 10_000)
    file = opened(tmp_path, f"{header}\n{row}\n{row}\n")
    assert (file.dialect, len(file.names)) == (CsvDialect(";", ","), 10_000)
    many = ";".join(["1,5"] * 100) + "\n"  # the last of the records that are looked at is cut
    assert opened(tmp_path, 1000 * many, CsvOptions(header=False)).dialect == CsvDialect(";", ",")


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize(
    ("encoding", "mark", "found"),
    [
        ("utf-8", b"", "utf-8"),
        ("utf-8", codecs.BOM_UTF8, "utf-8"),
        ("utf-16-le", codecs.BOM_UTF16_LE, "utf-16-le"),
        ("utf-16-be", codecs.BOM_UTF16_BE, "utf-16-be"),
        ("utf-16-le", b"", "utf-16-le"),
        ("utf-16-be", b"", "utf-16-be"),
        ("cp1252", b"", "cp1252"),
    ],
)
def test_an_encoding_is_found(
    tmp_path: Path, encoding: str, mark: bytes, found: str, name: str
) -> None:
    file = opened(tmp_path, mark + "Größe,b\nä,2\n".encode(encoding), name=name)
    assert file.dialect.encoding == found
    assert file.read({}).to_pydict() == {"Größe": ["ä"], "b": [2]}
    note = f"Read with encoding {found}; give --encoding if this is wrong."
    assert file.notes == (() if found == "utf-8" else (note,))


def test_one_accent_far_down_decides(tmp_path: Path) -> None:
    text = b"x,y\n" + b"1,2\n" * 300_000 + "ä,2\n".encode("latin-1")
    assert opened(tmp_path, text).dialect.encoding == "cp1252"
    text += b"\x81,2\n"  # no character of cp1252
    assert opened(tmp_path, text).dialect.encoding == "latin-1"


@pytest.mark.parametrize(
    ("given", "exact"),
    [
        ("UTF-16", "utf-16-be"),
        ("utf-32", "utf-32-le"),
        ("utf-8-sig", "utf-8"),
        ("Latin1", "iso8859-1"),
    ],
)
def test_a_given_encoding_is_made_exact(tmp_path: Path, given: str, exact: str) -> None:
    mark = codecs.BOM_UTF16_BE if given == "UTF-16" else b""
    file = opened(tmp_path, mark + "a\n1\n".encode(exact), CsvOptions(encoding=given))
    assert file.dialect.encoding == exact


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
    batches = list(file.stream({"x": pa.int64(), "y": pa.string()}, ["y"]))
    assert pa.Table.from_batches(batches).to_pydict() == {"y": expected["y"]}
    (part,) = file.parts({})
    assert part.to_pydict() == expected


CELLS = st.text(alphabet='ab1,;"\n\r\t ', max_size=40)


@settings(max_examples=50, deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6),
    block=st.integers(1, 7),
    size=st.integers(1, 30),
)
def test_parts_are_the_rows_of_other_readers(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str]],
    block: int,
    size: int,
) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([("p", "q"), *rows])
    folder = tmp_path_factory.mktemp("parts")
    file = opened(folder, stream.getvalue(), CsvOptions(separator=",", decimal="."))
    types = {"p": pa.string(), "q": pa.string()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_table, "PASS_BYTES", size)
        patch.setattr(csv_table, "blocks", lambda text: iter(lambda: text.read(block), b""))
        parts = list(file.parts(types))
    expected = [{"p": p or None, "q": q or None} for p, q in rows]
    assert pa.concat_tables(parts).to_pylist() == file.read(types).to_pylist() == expected


def test_blanks_may_separate_cells(tmp_path: Path) -> None:
    file = opened(tmp_path, '  x    "y"\r\n 1.5    "2"\n\n   \n  -3\t 4  ')
    assert file.dialect.separator == " "
    assert file.read({}).to_pydict() == {"x": [1.5, -3.0], "y": [2, 4]}
    (part,) = file.parts({})
    assert part.equals(file.read({}))
    batches = file.stream({"y": pa.int64()}, ["y"])
    assert pa.Table.from_batches(batches).to_pydict() == {"y": [2, 4]}
    for end in ("\n", "\r", "\r\n"):  # of more rows than are read at once
        lines = end.join(["x y", *(f" {n}   {-n} " for n in range(6000))])
        table = opened(tmp_path, lines).read({})
        assert table.to_pydict() == {"x": [*range(6000)], "y": [-n for n in range(6000)]}


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "\n\na,b", '"a\n",b\r\n\r\n'])
def test_a_file_may_have_no_rows(tmp_path: Path, text: str) -> None:
    file = opened(tmp_path, text)
    assert file.read({}).shape == (0, 2)
    assert sum(part.num_rows for part in file.parts({})) == 0
    assert list(file.stream({"b": pa.null()}, ["b"])) == []


@pytest.mark.parametrize(
    ("content", "encoding", "message"),
    [
        (b"", None, "Empty CSV file"),
        (b"\n\n", None, "Empty CSV file"),
        (b"a,b\n1,2\n3\n", None, ".*Expected 2 columns"),
        (b"a,b\n1,\xe4\n", "utf-8", ".*utf-8.*--encoding"),
        (b"a,b\n1,\xe4\n", "ascii", ".*--encoding"),
        (b"\xe4,b\n1,2\n", "utf-8", ".*utf-8"),
        (b"a,b\n1,\x81\n", "cp1252", ".*charmap"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: bytes, encoding: str | None, message: str
) -> None:
    with pytest.raises(TableError, match=f"t.csv' cannot be read as .csv: {message}"):
        opened(tmp_path, content, CsvOptions(encoding=encoding)).read({})


@pytest.mark.parametrize(
    ("header", "names", "notes"),
    [
        ("a,a,a", ["a", "a.1", "a.2"], ["is called 'a.1'", "is called 'a.2'"]),
        ("a,a,a.1", ["a", "a.2", "a.1"], ["Column 2 is 'a' too, as another one"]),
        ("a,,column 2, ", ["a", "column 2.1", "column 2", "column 4"], []),
        ("column 3,column 3,", ["column 3", "column 3.1", "column 3.2"], ["is called"]),
        ("a, b,c ", ["a", "b", "c"], ["Blanks around the names ' b', 'c ' are left out."]),
        ("2019,2020,2021.5", ["2019", "2020", "2021.5"], ["'2021.5'; give --no-header if"]),
        ('"a,b","c\nd",,"say ""hi""" x"z', ["a,b", "c\nd", "column 3", 'say "hi" x"z'], []),
        ('5" pipe,2', ['5" pipe', "2"], []),
        ('"",""""', ["column 1", '"'], []),
        ('a,"open', ["a", '"open'], []),
    ],
)
def test_names_are_read_and_become_unique(
    tmp_path: Path, header: str, names: list[str], notes: list[str]
) -> None:
    end = "" if "open" in header else "\n"
    file = opened(tmp_path, header + end, CsvOptions(separator=","))
    assert list(file.names) == names
    assert all(part in note for part, note in zip(notes, file.notes, strict=True))
    with_header = CsvOptions(separator=",", header=True)
    assert list(opened(tmp_path, header + end, with_header).names) == names


@pytest.mark.parametrize("header", ["5", "3,1", "1.5,-2e3,.5", "1,1"])
def test_other_numbers_are_refused_as_names(tmp_path: Path, header: str) -> None:
    with pytest.raises(TableError, match=r"first line must have the names.*--no-header.*--header"):
        opened(tmp_path, f"{header}\n")
    file = opened(tmp_path, f"{header}\n", CsvOptions(header=True))
    assert file.names[0] == header.split(",", maxsplit=1)[0]
    file = opened(tmp_path, f"\n{header}\n", CsvOptions(header=False))
    assert file.names[0] == "column 1"
    assert file.read({})["column 1"].to_pylist() == [float(header.split(",", maxsplit=1)[0])]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (",x\n0,5\n1,6\n2,7\n", ["x"]),
        (",x\n1,5\n2,6\n", ["x"]),
        ("Unnamed: 0,x\n0,5\n1,6\n", ["x"]),
        (",x\n2,5\n3,6\n", ["column 1", "x"]),
        (",x\n0,5\n2,6\n", ["column 1", "x"]),
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
    table = CsvTable.open(write(tmp_path, text))
    assert table.schema.names == names
    told = any("only counts the rows: it is left out; give --keep-" in n for n in table.notes)
    assert told == (len(names) == 1)
    kept = CsvTable.open(tmp_path / "t.csv", CsvOptions(keep_index=True))
    assert len(kept.schema.names) == 2


def test_columns_without_a_name_are_told(tmp_path: Path) -> None:
    table = CsvTable.open(write(tmp_path, "x,,\n1,2,\n3,4,NA\n"))
    assert table.schema.names == ["x", "column 2"]
    assert table.notes == (
        "Column 3 has neither a name nor values: it is left out.",
        "Column 2 has no name: it is called 'column 2'.",
    )


def test_a_model_decides_about_columns(tmp_path: Path) -> None:
    options = CsvOptions(separator=",", text=("column 3",)).for_model(["x"])
    table = CsvTable.open(write(tmp_path, ",x,\n0,01,\n1,2,\n"), options)
    assert (table.schema.names, table.notes) == (["column 1", "x", "column 3"], ())
    assert table.schema.types == [pa.int64(), pa.string(), pa.string()]


def test_leading_zeros_are_told_unless_they_are_text(tmp_path: Path) -> None:
    path = write(tmp_path, "zip code,b,c\n00123,0,01x\n1,0.5,02\n")
    assert CsvTable.open(path).notes == (
        "Column 'zip code' has leading zeros, such as '00123': it is read as a number; give "
        "--text 'zip code' if these are codes.",
    )
    assert CsvTable.open(path, CsvOptions(text=("zip code",))).notes == ()


@pytest.mark.parametrize("size", [1, 3])
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
        "g.tsv": "x;y\n19,0;t19\n",  # with a dialect of its own
    }
    table = CsvTable.open(folder_of(tmp_path, contents))
    expected = [{"y": f"t{i}", "x": float(i)} for i in range(20)]
    assert all_rows(table, ["y", "x"], size) == expected
    places = {chunk.first: Path(chunk.file).name for chunk in table.chunks(["x"])}
    assert (places[7], places[19]) == ("d.csv.gz", "g.tsv")
    assert table.file_rows == (0, 7, 12, 1)
    (note,) = table.notes
    assert note.startswith("Read with separator ';' and decimal comma")


DAY, SECOND, ZONED = "2020-01-01", "2020-01-01 00:00:01", "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("one", "other", "dtype"),
    [
        ("1", "2", pa.int64()),
        ("1", "", pa.int64()),
        ("", "1.5", pa.float64()),
        ("1", "1.5", pa.float64()),
        ("2", "true", pa.string()),
        ("1.5", "oops", pa.string()),
        ("", "oops", pa.string()),
        ("1.5", DAY, pa.string()),
        (DAY, SECOND, pa.timestamp("s")),
        (DAY, f"{SECOND}.5", pa.timestamp("ns")),
        (SECOND, f"{SECOND}.5", pa.timestamp("ns")),
        (SECOND, ZONED, pa.string()),
        (DAY, "10:00:00", pa.string()),
    ],
)
def test_a_type_suits_all_rows_of_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one: str, other: str, dtype: pa.DataType
) -> None:
    for first, last in ((one, other), (other, one)):
        folder_of(tmp_path, {"a.csv": f"y,x\n3,{first}\n", "b.csv": f"x,y\n{last},4\n"})
        table = CsvTable.open(tmp_path)
        assert table.schema == pa.schema([("y", pa.int64()), ("x", dtype)])
        assert len(all_rows(table, ["x"], 1)) == 2
        with monkeypatch.context() as patch:
            patch.setattr(csv_table, "PASS_BYTES", 100)
            patch.setattr(csv_table, "blocks", lambda stream: iter(lambda: stream.read(10), b""))
            late = write(tmp_path, "x,y\n" + f"{first},2.5\n" * 50 + f"{last},2.5\n", "_late.csv")
            table = CsvTable.open(late)
        assert table.schema.equals(read_table(late).schema)
        assert table.schema.field("x").type == dtype
        (chunk,) = table.chunks(["x"])
        assert chunk.table["x"].equals(read_table(late)["x"])


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
        ("x,y\n" + "1,2\n" * 2**19 + "3\n", r"b.csv' cannot be read as .csv: .*Expected 2 columns"),
    ],
    ids=range(5),
)
def test_a_file_that_does_not_fit_is_named(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        CsvTable.open(folder_of(tmp_path, {"a.csv": "x,y\n1,2\n", "b.csv": content}))


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
    table = CsvTable.open(write(tmp_path, "\n".join(lines)))
    assert table.schema.names == list(COLUMNS)
    (file,) = table.split()
    written = file.as_written()
    types = {"column 1": pa.string()} | {name: dtype for name, (_, dtype) in COLUMNS.items()}
    assert written.schema == pa.schema(list(types.items()))
    (chunk,) = written.chunks(written.schema.names)
    for name in ("zip", "long", "mixed", "phone", "zoned"):
        assert chunk.table[name].to_pylist() == COLUMNS[name][0]
    assert chunk.table["id"].to_pylist() == [1, 2**63 - 1]


def test_all_files_of_a_folder_are_written_with_the_same_types(tmp_path: Path) -> None:
    contents = {"a.csv": "x;zip\n1,5;2\n", "b.csv": "zip;x\n007;-2,5\n"}
    first, second = CsvTable.open(folder_of(tmp_path, contents)).split()
    assert first.as_written().schema == pa.schema([("x", pa.float64()), ("zip", pa.string())])
    assert second.as_written().schema == pa.schema([("zip", pa.string()), ("x", pa.float64())])
