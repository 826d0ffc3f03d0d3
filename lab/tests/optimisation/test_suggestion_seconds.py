"""Test of the script that measures the seconds of a suggestion: its file, never the speed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import suggestion_seconds
from scripting import read_lines


def test_medians_of_every_method_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suggestion_seconds, "METHODS", ("sobol",))
    monkeypatch.setattr(suggestion_seconds, "PROBLEMS", ("gramacy",))
    out = tmp_path / "seconds.jsonl"
    arguments = ["--rows", "7", "--threads", "1", "--repeats", "2", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["suggestion_seconds.py", *arguments])
    suggestion_seconds.main()
    [line] = read_lines(out)
    assert (line["problem"], line["rows"], line["threads"]) == ("gramacy", 7, 1)
    assert line["seconds"]["sobol"] >= 0
