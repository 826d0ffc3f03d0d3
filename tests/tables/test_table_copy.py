from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.commands import invoke, prices, write_price_model
from builders.tables import mixed, small_chunks
from hypothesis import given, settings
from hypothesis import strategies as st

from sswim.tables import (
    AS_FOUND,
    ChunkedTable,
    CsvOptions,
    TableError,
    copy_file,
    open_table,
    plain_table,
    read_table,
    require_copy,
    table_copy,
    write_table,
)

NAMES = ("mean", "std")


def copy(
    folder: Path,
    content: bytes,
    kept: list[bool],
    name: str = "in.csv",
    options: CsvOptions = AS_FOUND,
    out: str = "out.csv",
    no_formulas: bool = False,
) -> bytes:
    """Return the copy of a file whose new cells are 0.5 and −n, in two parts."""
    (folder / name).write_bytes(content)
    (file,) = open_table(folder / name, csv=options).split()

    def rows() -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        for part in (slice(0, 1), slice(1, None)):
            numbers = np.flatnonzero(kept[part]) + float(part.start)
            values = {"mean": np.full(len(numbers), 0.5), "std": -numbers}
            yield np.array(kept[part], dtype=bool), values

    list(copy_file(file, folder / out, NAMES, rows(), no_formulas=no_formulas))
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


def test_files_without_a_header_and_compressed_ones_are_copied(tmp_path: Path) -> None:
    found = copy(tmp_path, b"3,4\n1,2\n", [True, True], options=CsvOptions(header=False))
    assert found == b"3,4,0.5,-0\n1,2,0.5,-1\n"
    packed = gzip.compress(b"a\n1\n")
    expected = b"a,mean,std\n1,0.5,-0\n"
    assert copy(tmp_path, packed, [True], "in.csv.gz") == expected
    found = copy(tmp_path, packed, [True], "in.csv.gz", out="out.csv.gz")
    assert gzip.decompress(found) == expected


def test_a_name_in_other_letters_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_bytes("ä\n1\n".encode("cp1252"))
    (file,) = open_table(tmp_path / "in.csv").split()
    with pytest.raises(TableError, match=r"encoding cp1252.*Got 'μ'; .*--prefix"):
        list(copy_file(file, tmp_path / "out.csv", ["μ"], []))
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
    block=st.integers(3, 64),
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
        patch.setattr(table_copy, "blocks", lambda text: iter(lambda: text.read(block), b""))
        found = copy(folder, content, [True] * len(rows), options=options)
    stripped = found.decode(encoding).replace(f"{separator}mean{separator}std", "", 1)
    for number in range(len(rows)):
        tail = f"{separator}0.5{separator}-{number}"
        assert tail in stripped
        stripped = stripped.replace(tail, "", 1)
    assert stripped.encode(encoding) == content


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv.gz", ".arrow"])
def test_a_file_is_copied_to_parquet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    small_chunks(monkeypatch, 4)
    table = mixed(10).drop_columns(["f"])
    write_table(table, tmp_path / f"in{suffix}")
    (file,) = open_table(tmp_path / f"in{suffix}").split()
    kept = np.arange(10) % 3 != 1
    parts = (slice(0, 1), slice(1, 7), slice(7, 10))
    rows = [(kept[part], {"p": np.arange(10.0)[part][kept[part]]}) for part in parts]
    list(copy_file(file, tmp_path / "out.parquet", ["p"], rows))
    numbers = pa.array(np.arange(10.0)[kept])
    expected = table.filter(pa.array(kept)).append_column("p", numbers)
    assert pq.read_table(tmp_path / "out.parquet").equals(expected)


def test_a_csv_file_is_copied_to_any_format(tmp_path: Path) -> None:
    content = b"zip;x\r\n00001;1,50\r\n"
    found = copy(tmp_path, content, [True], out="out.tsv")
    assert found == b"zip;x;mean;std\r\n00001;1,50;0,5;-0\r\n"
    for out in ("out.parquet", "out.arrow"):
        copy(tmp_path, content, [True], out=out)
        expected = {"zip": "00001", "x": 1.5, "mean": 0.5, "std": 0.0}
        assert read_table(tmp_path / out).to_pylist() == [expected]


def test_other_copies_are_refused() -> None:
    require_copy("a.csv", "b.parquet")
    require_copy("a.csv.gz", "b.tsv")
    require_copy("a.csv.gz", "b.feather")
    require_copy("a.parquet", "b.parquet")
    for source, out in (("a.parquet", "b.csv"), ("folder", "b.arrow")):
        with pytest.raises(TableError, match=r"to a .parquet file, unless it is a CSV file"):
            require_copy(source, out)


def test_every_parquet_file_is_a_table(tmp_path: Path) -> None:
    table = mixed(10)
    pq.write_table(table.slice(0, 7), tmp_path / "a.parquet")
    reordered = table.slice(7).select(table.column_names[::-1])
    pq.write_table(reordered.replace_schema_metadata({"k": "v"}), tmp_path / "b.parquet")
    first, second = open_table(tmp_path).split()
    assert [first.name, second.name] == [str(tmp_path / f"{name}.parquet") for name in "ab"]
    assert (first.n_rows, second.n_rows) == (7, 3)
    assert first.as_written().schema == table.schema
    assert second.as_written().schema.names == table.column_names[::-1]
    assert second.as_written().schema.metadata == {b"k": b"v"}
    (chunk,) = second.chunks(["n"])
    assert chunk.table["n"].to_pylist() == [7, 8, 9]
    assert chunk.first == 0  # numbered within the file


def test_columns_of_folder_names_are_not_in_the_file(tmp_path: Path) -> None:
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(mixed(3), tmp_path / f"year={year}" / "a.parquet")
    files: Sequence[ChunkedTable] = open_table(tmp_path).split()
    for file, year in zip(files, (2020, 2021), strict=True):
        assert file.as_written().schema == mixed(3).schema
        (chunk,) = file.chunks(["year", "n"])
        assert chunk.table.to_pylist() == [{"year": year, "n": number} for number in range(3)]


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        (b"=1+1", b"'=1+1"),
        (b'"=HYPERLINK(""x"")"', b'"\'=HYPERLINK(""x"")"'),
        (b"+cmd", b"'+cmd"),
        (b"-2+3", b"'-2+3"),
        (b"@SUM(A1)", b"'@SUM(A1)"),
        (b" =1", b"' =1"),
        (b"\tx", b"'\tx"),
        (b'"\r=1"', b'"\'\r=1"'),
        *((same, same) for same in (b"", b"x=1", b"-1.5", b"+1e-3", b'"-1,5"', b"a@b", b"-.5")),
    ],
)
def test_formulas_become_text_and_numbers_stay(tmp_path: Path, cell: bytes, plain: bytes) -> None:
    options = CsvOptions(separator=",", decimal=".")
    found = copy(tmp_path, b"a,b\nx," + cell + b"\n", [True], options=options, no_formulas=True)
    assert found == b"a,b,mean,std\nx," + plain + b",0.5,-0\n"
    options = CsvOptions(separator=" ")
    found = copy(tmp_path, b"a b c\n=a  -1 @b\n", [True], options=options, no_formulas=True)
    assert found == b"a b c mean std\n'=a  -1 '@b 0.5 -0\n"


def test_texts_and_names_of_a_table_become_plain() -> None:
    table = pa.table({"=x": ["=1", "-1", None, "a"], "y": [-1.0, 1.0, 2.0, 3.0]})
    for column in (table["=x"], table["=x"].dictionary_encode()):
        plain = plain_table(table.set_column(0, "=x", column))
        assert plain.to_pydict() == {
            "'=x": ["'=1", "-1", None, "a"],
            "y": [-1.0, 1.0, 2.0, 3.0],
        }


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_predictions_have_no_formulas_on_request(suffix: str, tmp_path: Path) -> None:
    model = write_price_model(tmp_path)
    rows = prices(8).append_column("=note", pa.array(["=1+1"] * 8))
    given = tmp_path / f"rows.{suffix}"
    write_table(rows, given)
    for option, name, note in (([], "=note", "=1+1"), (["--no-formulas"], "'=note", "'=1+1")):
        out = tmp_path / "out.csv"
        result = invoke("predict", str(model), str(given), "--out", str(out), *option)
        assert result.exit_code == 0, result.output
        assert read_table(out)[name].to_pylist() == [note] * 8
        assert "mean" in read_table(out).column_names
        out.unlink()
