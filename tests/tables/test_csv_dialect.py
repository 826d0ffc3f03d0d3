from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sswim.tables import AS_FOUND, CsvOptions
from sswim.tables.csv_dialect import CsvDialect, Sniffed, sniff


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
