from __future__ import annotations

import codecs
import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sswim.base.validation import UserError
from sswim.tables import (
    AS_FOUND,
    CsvDialect,
    CsvOptions,
    Sniffed,
    csv_suffix,
    exact_encoding,
    find_encoding,
    is_csv,
    is_empty,
    is_gzip,
    line_end,
    open_text,
    record_blocks,
    sniff,
    split_cells,
    split_records,
    text_size,
)
from sswim.tables import csv_dialect as csv_text


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
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CsvOptions(**options)


def test_a_model_needs_all_columns_and_its_texts() -> None:
    options = CsvOptions(separator=";", text=("a",)).for_model(["b"])
    assert options == CsvOptions(separator=";", text=("a", "b"), has_model=True)
    assert AS_FOUND.for_model([]).separator is None


def found(folder: Path, text: str, name: str = "t.csv", options: CsvOptions = AS_FOUND) -> Sniffed:
    data = text.encode(options.encoding or "utf-8")
    (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return sniff(folder / name, options)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n3,4\n",
        "a,b\n",
        "a\n1\n2\n",
        "a\nx y\nz w\n",
        "full name\nAnn Lee\nBob May\n",
        "a,b\nx;y,1\nz;w,2\n",
        "a,b\n1,2\n3\n",
        "date,b\n2020-01-01 10:00:00,2\n",
        'a,"b;c|d"\n1,"2;3|4"\n',
        "\n\na,b\n\n1,2\n",
    ],
)
def test_a_usual_file_has_the_usual_dialect_and_no_notes(tmp_path: Path, text: str) -> None:
    for name in ("t.csv", "t.csv.gz"):
        each = found(tmp_path, text, name)
        assert each.dialect == CsvDialect()
        assert each.notes == ()


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("a;b\n1,5;2\n", ";", ","),
        ("a;b\n1.5;2\n", ";", "."),
        ("a;b;c\n1,5;2;x\n", ";", ","),
        ("x,m;y,m\n1,5;2,5\n", ";", ","),
        ("a;b\n1.234,5;2\n", ";", ","),
        ("a;b\n0,123;2\n", ";", ","),
        ("a;b\n-,5e-3;2\n", ";", ","),
        ("a\tb\n1\t2\n", "\t", "."),
        ("a|b\n1|2\n", "|", "."),
        ("a b\n1 2\n", " ", "."),
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
    each = found(tmp_path, text)
    assert each.dialect == CsvDialect(separator, decimal)
    (note,) = each.notes
    assert note.startswith("Read with ")
    assert ("--separator" in note) == (separator != ",")
    assert ("decimal comma" in note) == (decimal == ",")


def test_tabs_are_usual_in_a_tsv(tmp_path: Path) -> None:
    for name in ("t.tsv", "t.tsv.gz", "T.TSV"):
        assert found(tmp_path, "a\tb\n1\t2\n", name).notes == ()
        assert found(tmp_path, "a,b\n1,2\n", name).dialect.separator == ","
        assert found(tmp_path, "a\n1\n", name).dialect.separator == "\t"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a;b\n1,5;2.5\n", "decimal comma, such as '1,5', and some a decimal point, such as '2.5'"),
        ("a;b\n1,234;2\n", "Commas in numbers such as '1,234' are taken to group thousands"),
    ],
)
def test_a_doubt_is_told_and_the_point_kept(tmp_path: Path, text: str, words: str) -> None:
    each = found(tmp_path, text)
    assert each.dialect.decimal == "."
    assert any(words in note and "--decimal" in note for note in each.notes)
    given = found(tmp_path, text, options=CsvOptions(decimal=","))
    assert given.dialect.decimal == ","
    assert not any("--decimal" in note for note in given.notes)


def test_thousands_are_no_decimals(tmp_path: Path) -> None:
    for cell in ("1,234,567", "1,234.5"):
        each = found(tmp_path, f'a,b\n"{cell}","1,234"\n')
        assert each == Sniffed(CsvDialect(), (("a", "b"), (cell, "1,234")), 0, True, ())


def test_what_is_given_is_neither_looked_for_nor_told(tmp_path: Path) -> None:
    options = CsvOptions(separator="|", decimal=",", encoding="cp1252")
    each = found(tmp_path, "größe|b\n1;5|2\n", options=options)
    assert each.dialect == CsvDialect("|", ",", "cp1252")
    assert each.records == (("größe", "b"), ("1;5", "2"))
    assert each.notes == ()


def test_another_encoding_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("größe,b\n1,2\n".encode("cp1252"))
    (note,) = sniff(tmp_path / "t.csv", AS_FOUND).notes
    assert note == "Read with encoding cp1252; give --encoding if this is wrong."


def test_long_lines_are_read_whole(tmp_path: Path) -> None:
    header = ";".join(f"a long name {i}" for i in range(50_000))
    row = ";".join(["1,5"] * 50_000)
    each = found(tmp_path, f"{header}\n{row}\n{row}\n")
    assert each.dialect == CsvDialect(";", ",")
    assert len(each.records[0]) == 50_000


def test_a_record_that_is_cut_does_not_count(tmp_path: Path) -> None:
    text = "a;b\n" + "1,5;2\n" * 50_000
    each = found(tmp_path, text)
    assert {len(record) for record in each.records} == {2}
    assert len(each.records) == 1000


def test_a_dialect_is_described() -> None:
    assert CsvDialect("\t", ",", "cp1252").describe() == (
        "separator tab, decimal comma, encoding cp1252"
    )
    assert CsvDialect("~").describe() == "separator '~', decimal point, encoding utf-8"


@pytest.mark.parametrize("packed", [False, True])
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
        ("latin-1", b"", "cp1252"),
    ],
)
def test_an_encoding_is_found(
    tmp_path: Path, encoding: str, mark: bytes, found: str, packed: bool
) -> None:
    text = "Größe,b\n1,2\n"
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    content = mark + text.encode(encoding)
    path.write_bytes(gzip.compress(content) if packed else content)
    assert find_encoding(path) == found
    with open_text(path, found) as stream:
        assert stream.read().decode("utf-8-sig") == text


def test_one_accent_far_down_decides(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"x,y\n" + b"1,2\n" * 500_000 + "ä,2\n".encode("latin-1"))
    assert find_encoding(path) == "cp1252"
    path.write_bytes(path.read_bytes() + b"\x81,2\n")  # no character of cp1252
    assert find_encoding(path) == "latin-1"


def test_a_given_encoding_is_made_exact(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(codecs.BOM_UTF16_BE + "a".encode("utf-16-be"))
    assert exact_encoding(path, "UTF-16") == "utf-16-be"
    assert exact_encoding(path, "utf-32") == "utf-32-le"
    assert exact_encoding(path, "utf-8-sig") == "utf-8"
    assert exact_encoding(path, "Latin1") == "iso8859-1"


@pytest.mark.parametrize("block", [1, 5, 2**20])
def test_blanks_become_tabs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(csv_text, "BLOCK_BYTES", block)
    path = tmp_path / "t.txt"
    path.write_bytes(b"  x   y z\r\n1.5\t2  3 \n\n   \n-1 2 3")
    with open_text(path, "utf-8", " ") as stream:
        found = b"".join(iter(lambda: stream.read(4), b""))
    assert found.replace(b"\n\n", b"\n").replace(b"\n\n", b"\n") == b"x\ty\tz\n1.5\t2\t3\n-1\t2\t3"


def test_suffixes_of_text_files(tmp_path: Path) -> None:
    assert all(map(is_csv, ["a.csv", "b.CSV.GZ", "c.tsv", "d.txt", "e.tsv.gz"]))
    assert not any(map(is_csv, ["a.parquet", "csv", "a.gz", "a.csv.bz2"]))
    assert is_gzip("a.TSV.GZ")
    assert csv_suffix("a.TSV.GZ") == ".tsv.gz"
    (tmp_path / "a.csv").write_bytes(b"12345")
    (tmp_path / "a.csv.gz").write_bytes(b"12345")
    assert text_size(tmp_path / "a.csv") == 5
    assert text_size(tmp_path / "a.csv.gz") == 30


TEXTS = st.text(alphabet='ab1,;"\n\r\t ', max_size=40)


@pytest.mark.parametrize(
    ("record", "cells"),
    [
        (b"a,b\n", ["a", "b"]),
        (b",\r\n", ["", ""]),
        (b'"a,b","c\nd",,"say ""hi""" x"z\r', ["a,b", "c\nd", "", 'say "hi" x"z']),
        (b'5" pipe,2', ['5" pipe', "2"]),
        (b'"open,3', ['"open,3']),
        (b'"",""""', ["", '"']),
    ],
)
def test_cells_of_a_record(record: bytes, cells: list[str]) -> None:
    assert split_cells(record, ",") == cells
    assert list(split_records([record], ",")) == [record]


def test_blanks_separate_cells() -> None:
    assert split_cells(b"  1 \t 2.5\r\n", " ") == ["1", "2.5"]
    assert list(split_records([b'a "b\n', b" 2 3\n"], " ")) == [b'a "b\n', b" 2 3\n"]
    assert is_empty(b"  \n", " ")
    assert not is_empty(b"  \n", ",")


@given(text=TEXTS, size=st.integers(1, 7))
def test_records_are_all_of_the_text(text: str, size: int) -> None:
    content = text.encode()
    blocks = [content[i : i + size] for i in range(0, len(content), size)]
    records = list(split_records(blocks, ","))
    assert b"".join(records) == content
    assert records == list(split_records([content], ","))
    assert all(line_end(record) for record in records[:-1])
    joined = list(record_blocks(blocks, ",", 5))
    assert b"".join(joined) == content


@given(rows=st.lists(st.lists(TEXTS, min_size=2, max_size=2), min_size=1, max_size=6))
def test_records_are_those_of_other_readers(rows: list[list[str]]) -> None:
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows([["p", "q"], *rows])
    content = stream.getvalue().encode()
    records = [each for each in split_records([content], ",") if not is_empty(each, ",")]
    assert [split_cells(record, ",") for record in records[1:]] == rows
    table = pyarrow.csv.read_csv(
        pa.BufferReader(content),
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={"p": pa.string(), "q": pa.string()}
        ),
    )
    assert [list(row.values()) for row in table.to_pylist()] == rows
    parts = list(record_blocks([content[i : i + 3] for i in range(0, len(content), 3)], ",", 8))
    assert sum(len(list(split_records([part], ","))) for part in parts) == len(
        list(split_records([content], ","))
    )
