"""The tables of docs/tables.md are those that the scripts make of the stored results."""

from __future__ import annotations

from pathlib import Path

import levels
import missing_cells_table
import real_tables
from json_lines import read_lines
from missing_cells_rows import SETS

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "lab" / "results"
PAGE = (ROOT / "docs" / "tables.md").read_text(encoding="utf-8")


def test_real_tables() -> None:
    assert real_tables.markdown(read_lines(RESULTS / "real-tables.jsonl")) in PAGE


def test_encodings_of_levels() -> None:
    assert levels.markdown(read_lines(RESULTS / "levels.jsonl")) in PAGE


def test_missing_cells() -> None:
    lines = [line for line in read_lines(RESULTS / "missing-cells.jsonl") if line["set"] in SETS]
    assert missing_cells_table.compact_table(lines) in PAGE
