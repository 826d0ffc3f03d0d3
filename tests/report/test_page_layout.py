"""Sections that arrange others."""

from __future__ import annotations

import pytest

from sswim.report.page import (
    Bar,
    Bars,
    Card,
    Choice,
    Details,
    Findings,
    Grid,
    Part,
    Section,
    Text,
    Tile,
    Tiles,
    html_page,
)

NASTY = "<script>alert('x')</script> & \"quoted\""
TEXT = Text("inside")


@pytest.mark.parametrize(
    "section",
    [
        Part("place", NASTY, (TEXT,), NASTY),
        Grid((TEXT,), small=True),
        Card(NASTY, (TEXT,), NASTY),
        Details(NASTY, (TEXT,)),
        Choice(NASTY, ((NASTY, TEXT),)),
        Tiles((Tile(NASTY, NASTY, NASTY), Tile("name", "inside"))),
        Findings((NASTY, "inside")),
        Bars((Bar(NASTY, 1.0, NASTY, (0.5, 1.5)), Bar("b", -1.0, "inside"))),
    ],
)
def test_sections_show_what_is_inside_and_escape_all_text(section: Section) -> None:
    html = section.html()
    assert "inside" in html
    assert "<script" not in html
    assert "&quot;quoted&quot;" in html or NASTY not in repr(section)


def test_lengths_of_bars_are_shares_of_the_longest() -> None:
    html = Bars((Bar("a", 1.0, "1", (0.5, 2.0)), Bar("b", -1.0, "−1"))).html()
    assert 'data-share="0.5000"' in html
    assert 'data-from="0.2500" data-to="1.0000"' in html
    assert 'data-share="0.0000"' in html


def test_a_page_with_a_program_has_a_switch_and_links() -> None:
    part = Part("first", "The first", (TEXT,))
    html = html_page("A page", [part], has_script=True)
    assert '<a href="#first">The first</a>' in html
    assert 'id="first"' in html
    assert html.count("<script>") == 1
    assert 'value="dark"' in html
    assert "default-src 'none'" in html
    assert "script-src 'sha256-" in html


def test_a_page_without_a_program_runs_none() -> None:
    html = html_page("A page", [TEXT])
    assert "script-src 'none'" in html
    assert "<button" not in html
