"""Rows of dataclasses in CSV files."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders.figures import matplotlib_left_alone  # noqa: F401 (for every test)
from sswim_lab.bench.results import append_rows, read_rows, write_rows


@dataclass(frozen=True)
class Numbers:
    text: str
    whole: int
    real: float


def test_numbers_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "numbers.csv"
    assert read_rows(path, Numbers) == []
    path.touch()
    assert read_rows(path, Numbers) == []
    rows = [Numbers('with "quotes", commas\nand lines', 1, 0.1), Numbers("", -2, math.inf)]
    append_rows(path, rows[:1], Numbers)
    append_rows(path, rows[1:], Numbers)
    assert read_rows(path, Numbers) == rows
    appended = path.read_bytes()
    write_rows(path, rows, Numbers)
    assert path.read_bytes() == appended


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,whole\n", "must start with the columns text,whole,real"),
        ("text,whole,real\na,1,2\na,1\n", "Line 3 of .* is not a result"),
        ("text,whole,real\na,1,x\n", "Line 2 of .* is not a result"),
    ],
)
def test_wrong_csv_files_raise_an_error(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "numbers.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        read_rows(path, Numbers)
