"""docs/reproduce.md shows the stored results."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reproduce.md"


@pytest.mark.parametrize("name", ["table-complete", "table-output-warp"])
def test_the_tables_are_the_stored_ones(name: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    begin = f"<!-- from lab/results/paper/{name}.md -->\n"
    shown = text[text.index(begin) + len(begin) : text.index("<!-- end -->", text.index(begin))]
    stored = (ROOT / "lab" / "results" / "paper" / f"{name}.md").read_text(encoding="utf-8")
    assert shown.strip() in stored
