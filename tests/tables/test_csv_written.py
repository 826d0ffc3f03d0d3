from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from sswim.tables import csv_table, split_by_file
from sswim.tables.csv_table import CsvTable

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
    (tmp_path / "t.csv").write_text("\n".join(lines))
    table = CsvTable.open(tmp_path / "t.csv")
    assert table.schema.names == list(COLUMNS)
    (file,) = split_by_file(table)
    written = file.as_written()
    assert written.schema.names == ["column 1", *COLUMNS]
    types = {"column 1": pa.string()} | {name: dtype for name, (_, dtype) in COLUMNS.items()}
    assert dict(zip(written.schema.names, written.schema.types, strict=True)) == types
    (chunk,) = written.chunks(written.schema.names)
    for name in ("zip", "long", "mixed", "phone", "zoned"):
        assert chunk.table[name].to_pylist() == COLUMNS[name][0]
    assert chunk.table["id"].to_pylist() == [1, 2**63 - 1]


def test_numbers_with_a_decimal_comma_are_kept(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\n0,5;00\n-1,25;1\n")
    types = CsvTable.open(tmp_path / "t.csv").written_types
    assert types == {"a": pa.float64(), "b": pa.string()}


def test_all_files_of_a_folder_have_the_same_types(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,zip\n1,2\n")
    (tmp_path / "b.csv").write_text("zip,x\n007,2.5\n")
    first, second = split_by_file(CsvTable.open(tmp_path))
    assert first.as_written().schema == pa.schema([("x", pa.float64()), ("zip", pa.string())])
    assert second.as_written().schema == pa.schema([("zip", pa.string()), ("x", pa.float64())])
