from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.tables import houses, small_chunks

from sswim.tables import ColumnDescription, CsvOptions, describe_table, write_table

TEXT = """;größe;wert;stadt;wann;uhr;leer;nummer
0;1,5;1;Bonn;2020-01-01;10:00:00;;A{0}
1;2,5;?;Köln;2020-01-02 12:00:00;11:00:00;;A1
2;;3;Köln;2020-01-03;;;A2
"""


def write(folder: Path) -> Path:
    rows = "".join(f"{n};2,5;4;Ulm;2020-02-01;10:00:00;;B{n}\n" for n in range(3, 30))
    (folder / "t.csv").write_text(TEXT + rows)
    return folder / "t.csv"


@pytest.mark.parametrize("n_rows", [4, 1000])
def test_every_column_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_rows: int
) -> None:
    small_chunks(monkeypatch, n_rows)
    found = describe_table(write(tmp_path))
    assert found.form == "1 CSV file: separator ';', decimal comma, encoding utf-8"
    assert found.n_rows == 30
    assert found.columns == (
        ColumnDescription("größe", "number", "1.5 to 2.5", 1, ("1.5", "2.5")),
        ColumnDescription("wert", "number", "1 to 4", 1, ("1", "?", "3")),
        ColumnDescription("stadt", "category", "3 levels", 0, ("Bonn", "Köln", "Ulm")),
        ColumnDescription(
            "wann",
            "time",
            "2020-01-01 to 2020-02-01",
            0,
            ("2020-01-01 00:00:00", "2020-01-02 12:00:00", "2020-01-03 00:00:00"),
        ),
        ColumnDescription("uhr", "time", "", 1, ("10:00:00", "11:00:00")),
        ColumnDescription("leer", "not used: it has no values", "", 30, ()),
        ColumnDescription(
            "nummer", "not used: it has a different text in every row", "", 0, ("A{0}", "A1", "A2")
        ),
    )
    assert len(found.notes) == 5
    assert found.notes[1].startswith("Column 1 has no name and only counts the rows")


def test_columns_may_be_text_and_an_index_kept(tmp_path: Path) -> None:
    options = CsvOptions(keep_index=True, text=("wert",))
    found = describe_table(write(tmp_path), options, text=["wert"])
    columns = {column.name: column for column in found.columns}
    assert columns["column 1"].values == "0 to 29"
    assert columns["wert"].kind == "category"


@pytest.mark.parametrize(
    ("name", "form"),
    [("t.parquet", "1 Parquet file"), ("t.arrow", "1 Arrow file"), ("", "2 Parquet files")],
)
def test_all_formats_are_described(tmp_path: Path, name: str, form: str) -> None:
    for file in [name] if name else ["a.parquet", "b.parquet"]:
        write_table(houses(), tmp_path / file)
    found = describe_table(tmp_path / name)
    assert found.form == form
    assert found.n_rows == (4 if name else 8)
    assert [column.kind for column in found.columns] == [
        *("number", "number", "category", "time", "number")
    ]
    assert found.notes == ()


def test_unusable_columns_and_many_levels_are_described(tmp_path: Path) -> None:
    table = pa.table(
        {"list": [[n] for n in range(500)], "town": [f"t{n % 50}" for n in range(500)]}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    unusable, town = describe_table(tmp_path / "t.parquet").columns
    assert unusable.kind.startswith("cannot be used: type list<")
    assert unusable.examples == ("[0]", "[1]", "[2]")
    assert town.values == "50 levels"
