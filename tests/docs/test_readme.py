"""The README shows the stored results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- made by: sswim bench table", "<!-- end -->"


def test_the_table_shows_the_stored_results() -> None:
    readme = ROOT / "README.md"
    if not readme.exists():
        pytest.skip("the README is not beside the tests")
    text = readme.read_text(encoding="utf-8")
    first_line, rest = text[text.index(BEGIN) :].split("\n", 1)
    arguments = first_line.removeprefix("<!-- made by: sswim").removesuffix("-->").split()
    result = subprocess.run(
        [sys.executable, "-m", "sswim", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert rest[: rest.index(END)].strip() == result.stdout.strip()
