"""The README and a page of docs/ show the stored results."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders.commands import invoke

ROOT = Path(__file__).parents[3]
BEGIN, END = "<!-- made by: sswim bench", "<!-- end -->"


@pytest.mark.parametrize("page", ["README.md", "docs/optimisation.md"])
def test_the_table_shows_the_stored_results(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (ROOT / page).exists():
        pytest.skip("the page is not beside the tests")
    text = (ROOT / page).read_text(encoding="utf-8")
    first_line, rest = text[text.index(BEGIN) :].split("\n", 1)
    arguments = first_line.removeprefix("<!-- made by: sswim").removesuffix("-->").split()
    monkeypatch.chdir(ROOT)
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output
    assert rest[: rest.index(END)].strip() == result.stdout.strip()
