from __future__ import annotations

import codecs
import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sswim.tables import AS_FOUND, CsvOptions, TableError
from sswim.tables import csv_dialect as csv_text
from sswim.tables.csv_table import CsvFile
from sswim.tables.table_copy import copy_csv

NAMES = ("mean", "std")


def copy(
    folder: Path,
    content: bytes,
    kept: list[bool],
    name: str = "in.csv",
    options: CsvOptions = AS_FOUND,
    out: str = "out.csv",
) -> bytes:
    """Return the copy of a file whose new cells are 0.5 and −n, in two parts."""
    (folder / name).write_bytes(content)
    file = CsvFile.open(folder / name, options)
    with copy_csv(file, folder / out, NAMES) as writing:
        for rows in (slice(0, 1), slice(1, None)):
            numbers = np.flatnonzero(kept[rows]) + float(rows.start)
            values = {"mean": np.full(len(numbers), 0.5), "std": -numbers}
            writing.append(np.array(kept[rows], dtype=bool), values)
    return (folder / out).read_bytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n", "a,b,mean,std\n1,2,0.5,-0\n"),
        ("a,b\r\n1,2\r\n", "a,b,mean,std\r\n1,2,0.5,-0\r\n"),
        ("a,b\n1,2", "a,b,mean,std\n1,2,0.5,-0"),
        ("a,b\r1,2\r", "a,b,mean,std\r1,2,0.5,-0\r"),
        ("\n\na,b\n\n1,2\n\n", "\n\na,b,mean,std\n\n1,2,0.5,-0\n\n"),
        ('"a,\nb",c\n"1\n\n",""\n', '"a,\nb",c,mean,std\n"1\n\n","",0.5,-0\n'),
        ("a;b\n1,5;2\n", "a;b;mean;std\n1,5;2;0,5;-0\n"),
        ('a,b\n"1,5","x"\n', 'a,b,mean,std\n"1,5","x","0,5","-0"\n'),
        ("a\tb\n1\t2\n", "a\tb\tmean\tstd\n1\t2\t0.5\t-0\n"),
        (" a  b\n 1  2 \n", " a  b mean std\n 1  2  0.5 -0\n"),
        ("a\n00001\n", "a,mean,std\n00001,0.5,-0\n"),
        (",a,a,\n0,1,2,\n", ",a,a,,mean,std\n0,1,2,,0.5,-0\n"),
        ("größe;b\n1;2\n", "größe;b;mean;std\n1;2;0.5;-0\n"),
    ],
)
@pytest.mark.parametrize(
    "mark_and_encoding",
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (b"", "cp1252"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
    ids=str,
)
def test_cells_are_appended_in_the_way_of_the_file(
    tmp_path: Path, text: str, expected: str, mark_and_encoding: tuple[bytes, str]
) -> None:
    mark, encoding = mark_and_encoding
    found = copy(tmp_path, mark + text.encode(encoding), [True])
    assert found == mark + expected.encode(encoding)


def test_rows_may_be_left_out(tmp_path: Path) -> None:
    content = b'a,b\n1,"x\ny"\n2,"p\nq"\n\n3,z'
    found = copy(tmp_path, content, [True, False, True])
    assert found == b'a,b,mean,std\n1,"x\ny",0.5,-0\n\n3,z,0.5,-2'


def test_a_file_without_a_header_gets_none(tmp_path: Path) -> None:
    found = copy(tmp_path, b"3,4\n1,2\n", [True, True], options=CsvOptions(header=False))
    assert found == b"3,4,0.5,-0\n1,2,0.5,-1\n"


def test_compressed_files_are_copied_by_their_text(tmp_path: Path) -> None:
    packed = gzip.compress(b"a\n1\n")
    expected = b"a,mean,std\n1,0.5,-0\n"
    assert copy(tmp_path, packed, [True], "in.csv.gz") == expected
    found = copy(tmp_path, packed, [True], "in.csv.gz", out="out.csv.gz")
    assert gzip.decompress(found) == expected


def test_bytes_that_an_encoding_does_not_know_are_kept(tmp_path: Path) -> None:
    content = b"a,b\n1,\x81\xe4\n"
    assert copy(tmp_path, content, [True]) == b"a,b,mean,std\n1,\x81\xe4,0.5,-0\n"


def test_names_are_quoted_where_they_must_be(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a;b\n1,5;2\n")
    file = CsvFile.open(tmp_path / "in.csv", AS_FOUND)
    with copy_csv(file, tmp_path / "out.csv", ['p;"mean', "p,std"]) as writing:
        writing.append(np.array([True]), {'p;"mean': np.ones(1), "p,std": np.ones(1)})
    assert (tmp_path / "out.csv").read_text() == 'a;b;"p;""mean";p,std\n1,5;2;1;1\n'


def test_a_name_in_other_letters_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes("ä\n1\n".encode("cp1252"))
    file = CsvFile.open(tmp_path / "in.csv", AS_FOUND)
    with (
        pytest.raises(TableError, match=r"encoding cp1252.*Got 'μ'; .*--prefix"),
        copy_csv(file, tmp_path / "out.csv", ["μ"]),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize(("n_rows", "how"), [(1, "more"), (3, "fewer")])
def test_a_file_that_changes_is_refused(tmp_path: Path, n_rows: int, how: str) -> None:
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(TableError, match=f"Got {how} rows than before in .*in.csv'"):
        copy(tmp_path, b"a\n1\n2\n", [True] * n_rows)
    assert (tmp_path / "out.csv").read_text() == "old"


CELLS = st.text(alphabet='ab01.,;"\n\r\t äß€', max_size=6)
ROWS = st.lists(st.tuples(CELLS, CELLS, st.integers(-5, 5)), min_size=1, max_size=8)


@settings(max_examples=50, deadline=None)
@given(
    rows=ROWS,
    separator=st.sampled_from([",", ";", "\t", "|"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    cut=st.booleans(),
    block=st.integers(1, 64),
)
def test_without_the_new_cells_a_copy_is_the_file(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[str, str, int]],
    separator: str,
    end: str,
    encoding: str,
    quoting: int,
    cut: bool,
    block: int,
) -> None:
    folder = tmp_path_factory.mktemp("copy")
    stream = io.StringIO(newline="")
    # The writer does not quote all line ends if its own has one character.
    quoting = quoting if end == "\r\n" else csv.QUOTE_ALL
    writer = csv.writer(stream, delimiter=separator, lineterminator=end, quoting=quoting)  # type: ignore[arg-type]
    writer.writerows([("p", "q", "r"), *rows])
    text = stream.getvalue()
    content = (text.removesuffix(end) if cut else text).encode(encoding)
    options = CsvOptions(separator=separator, decimal=".", encoding=encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_text, "BLOCK_BYTES", 2 * block)
        found = copy(folder, content, [True] * len(rows), options=options)
    assert CsvFile.open(folder / "in.csv", options).read({}).num_rows == len(rows)
    stripped = found.decode(encoding).replace(f"{separator}mean{separator}std", "", 1)
    for number in range(len(rows)):
        tail = f"{separator}0.5{separator}-{number}"
        assert tail in stripped
        stripped = stripped.replace(tail, "", 1)
    assert stripped.encode(encoding) == content
