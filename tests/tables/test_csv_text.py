from __future__ import annotations

import codecs
import gzip
from pathlib import Path

import pytest

from sswim.tables import csv_dialect as csv_text
from sswim.tables import is_csv
from sswim.tables.csv_dialect import (
    csv_suffix,
    exact_encoding,
    find_encoding,
    is_gzip,
    open_text,
    text_size,
)


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


def test_a_character_may_lie_in_two_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x\n" + "äöü" * 1000, encoding="utf-8")
    monkeypatch.setattr(csv_text, "BLOCK_BYTES", 7)
    assert find_encoding(path) == "utf-8"


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
