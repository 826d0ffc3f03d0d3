from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sswim.tables import AS_FOUND, CsvOptions, TableError, csv_table
from sswim.tables.csv_table import CsvFile


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


def test_cells_of_a_text_column_stay_as_they_are(tmp_path: Path) -> None:
    file = opened(tmp_path, "a,b\n00123, 1 \n,2\n", CsvOptions(text=("a", "b", "unknown")))
    types = file.text_types(CsvOptions(text=("a", "b", "unknown")))
    assert file.read(types).to_pydict() == {"a": ["00123", None], "b": [" 1 ", "2"]}
    assert file.codes == {"a": "00123"}


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


def test_repeated_names_are_columns(tmp_path: Path) -> None:
    file = opened(tmp_path, "x,x,,y\n1,2,3,4\n")
    assert file.read({}).to_pydict() == {"x": [1], "x.1": [2], "column 3": [3], "y": [4]}


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
