from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sswim.tables import AS_FOUND, CsvOptions
from sswim.tables.csv_table import CsvFile, CsvScan, merge_types


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


def test_a_table_keeps_a_column(tmp_path: Path) -> None:
    assert scanned(tmp_path, '""\n0\n1\n')[0] == ["column 1"]


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
