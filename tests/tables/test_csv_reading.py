from __future__ import annotations

from pathlib import Path

import pytest

from sswim.tables import CsvOptions, TableError
from sswim.tables.csv_table import CsvTable, read_csv

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


def test_a_usual_file_has_no_notes(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(KINDS[0])
    assert read_csv(tmp_path / "t.csv").notes == ()


def test_options_count(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",z\n0,01\n1,02\n")
    options = CsvOptions(keep_index=True, text=("z",))
    assert read_csv(tmp_path / "t.csv", options).table.to_pydict() == {
        "column 1": [0, 1],
        "z": ["01", "02"],
    }


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(TableError, match="Got 0 rows and 2 columns"):
        read_csv(tmp_path / "t.csv")
