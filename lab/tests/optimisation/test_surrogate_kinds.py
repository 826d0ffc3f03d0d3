"""Test of the script that compares surrogates with and without additive members: its file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import surrogate_kinds
from json_lines import read_lines


def test_scores_are_stored_once_and_tabled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        surrogate_kinds, "FUNCTIONS", {"ishigami": surrogate_kinds.FUNCTIONS["ishigami"]}
    )
    monkeypatch.setattr(surrogate_kinds, "N_ROWS", (9,))
    out = tmp_path / "kinds.jsonl"
    for arguments in ([], [], ["--table"]):
        monkeypatch.setattr(sys, "argv", ["surrogate_kinds.py", *arguments, "--out", str(out)])
        capsys.readouterr()
        surrogate_kinds.main()
    lines = read_lines(out)
    assert [line["variant"] for line in lines] == ["without", "with"]
    assert all(line["rmse"] > 0 for line in lines)
    table = capsys.readouterr().out.splitlines()
    assert table[0] == "| function | inputs | 9 rows, without | 9 rows, with |"
    assert table[2].startswith("| ishigami | 3 | ")
