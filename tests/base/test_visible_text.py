from __future__ import annotations

from sswim.base.validation import visible


def test_control_characters_become_escapes() -> None:
    assert visible("red \x1b[31m, \x9b2J, \r, \x00, \u202e, \udcff, é") == (
        r"red \x1b[31m, \x9b2J, \r, \x00, \u202e, \udcff, é"
    )


def test_lines_tabs_and_joiners_stay() -> None:
    assert visible("a\tb\nक्\u200dष") == "a\tb\nक्\u200dष"
