"""Pages and charts: what stands in the HTML, and what no text in it can do."""

from __future__ import annotations

import base64
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure as Drawing

from sswim.plotting import png
from sswim.report import charts, page

NASTY = '<script>alert(1)</script><!-- & "quoted" \' </title></style> \u2028 \x00 \ud800'
SHOWN = NASTY.replace("\x00", r"\x00").replace("\ud800", r"\ud800")
TEXT = page.paragraph("inside")
X = np.array([0.0, 1.0, 2.0])
LAYERS = (
    charts.layer("line", NASTY, x=X, y=X**2),
    charts.layer("points", x="shared", y=X, numbers="shared", more={"more": "shared"}),
    charts.layer("heat", "", None, x=(0.0, 1.0), y=(0.0, 1.0), values=np.arange(4.0)),
)
IMAGE = png(Drawing(figsize=(0.2, 0.2)), dpi=50)
SECTIONS = [
    page.heading("Results"),
    page.paragraph("All in one."),
    page.code("x < y"),
    page.table(("name", "value"), [("a", "1.5"), ("b", "-2e3")], "Numbers."),
    page.picture(IMAGE, "Nothing.", "An empty picture."),
]


class Reader(HTMLParser):
    """Parser that checks the nesting of elements and collects their attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


def spec_of(html: str) -> dict[str, Any]:
    """Return the only JSON in some HTML."""
    [text] = re.findall(r"<script [^>]*>(.*?)</script>", html, re.DOTALL)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_a_page_is_well_formed_has_all_its_parts_and_needs_nothing_else() -> None:
    html = page.html_page("A page", SECTIONS)
    assert html.startswith("<!DOCTYPE html>")
    assert "color-scheme: light dark" in html
    assert "script-src 'none'" in html
    assert not re.search(r"://|url\(|@import|<button|<script|<iframe", html)
    reader = Reader(html)
    expected = {
        "title": ["A page"],
        "h1": ["A page"],
        "h2": ["Results"],
        "p": ["All in one."],
        "code": ["x < y"],
        "caption": ["Numbers."],
        "th": ["name", "value"],
        "td": ["a", "1.5", "b", "-2e3"],
        "figcaption": ["An empty picture."],
    }
    assert {tag: reader.text[tag] for tag in expected} == expected
    assert reader.attributes("html") == [{"lang": "en", "data-theme": "auto"}]
    assert reader.attributes("link") == [{"rel": "icon", "href": "data:,"}]
    # Columns of numbers stand to the right.
    assert [cell.get("class") for cell in reader.attributes("td")] == [None, "number"] * 2
    assert [cell.get("class") for cell in reader.attributes("th")] == [None, "number"]
    (image,) = reader.attributes("img")
    assert image["alt"] == "Nothing."
    kind, data = str(image["src"]).split(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data, validate=True) == IMAGE


def test_a_page_with_a_program_has_a_switch_and_links() -> None:
    html = page.html_page("A page", [], [page.Part("first", NASTY, [TEXT], NASTY)])
    assert html.count("<script>") == 1
    for part in ('<a href="#first">', 'id="first"', 'value="dark"', "<p>inside</p>"):
        assert part in html
    assert "default-src 'none'" in html
    assert "script-src 'sha256-" in html
    reader = Reader(html)
    for tag in ("a", "h2", "p"):
        assert SHOWN in reader.text[tag]


@pytest.mark.parametrize(
    ("section", "tag"),
    [
        (page.heading(NASTY), "h2"),
        (page.paragraph(NASTY), "p"),
        (page.code(NASTY), "code"),
        (page.findings([NASTY]), "li"),
        (page.table([NASTY], []), "th"),
        (page.table(["name"], [[NASTY]]), "td"),
        (page.table(["name"], [], NASTY), "caption"),
        (page.table([NASTY], [["1"]], sortable=True), "button"),
        (page.picture(IMAGE, NASTY, NASTY), "figcaption"),
        (page.card(NASTY, TEXT), "h3"),
        (page.card("", caption=NASTY), "figcaption"),
        (page.details(NASTY, TEXT), "summary"),
        (page.choice("", [(NASTY, TEXT)]), "option"),
        (page.grid(page.tiles([(NASTY, "", "")]), small=True), "div"),
        (page.bars([page.Bar(NASTY, 1.0, "", 0.5), page.Bar("", -1.0, "")]), "span"),
        (charts.chart(NASTY, charts.Axis("x"), charts.Axis("y")), "h3"),
        (charts.chart("", charts.Axis("x"), charts.Axis("y"), caption=NASTY), "figcaption"),
    ],
)
def test_text_is_shown_and_never_executed(section: page.Html, tag: str) -> None:
    html = page.html_page(NASTY, [section])
    html.encode("utf-8")  # no lone surrogates
    assert len(re.findall("</title>", html)) == 1
    assert not re.search("<script>|<!--", html)
    reader = Reader(html)
    assert "".join(reader.text["h1"]) == SHOWN
    assert SHOWN in "".join(reader.text[tag])
    assert all(image["alt"] == SHOWN for image in reader.attributes("img"))


def test_the_length_of_a_bar_is_its_share_of_the_longest() -> None:
    html = page.bars([page.Bar("a", 1.0, "1", 1.0), page.Bar("b", -1.0, "−1")])
    assert 'data-share="0.5000"' in html
    assert 'data-from="0.0000" data-to="1.0000"' in html
    assert 'data-share="0.0000"' in html


def test_a_chart_holds_its_layers_as_json() -> None:
    axis = charts.Axis("y", levels=(NASTY,), zero=True)
    html = charts.chart("A chart", charts.Axis("x"), axis, *LAYERS)
    assert len(re.findall("<script", html)) == len(re.findall("</script", html)) == 1
    spec = spec_of(html)
    line, points, heat = spec["layers"]
    assert line == {"kind": "line", "name": SHOWN, "colour": 1, "x": [0, 1, 2], "y": [0, 1, 4]}
    assert (points["x"], points["more"]) == ("shared", {"more": "shared"})
    assert "colour" not in heat
    assert spec["y"] == {"label": "y", "levels": [SHOWN], "zero": True}


def test_json_of_scripts_reads_back_as_what_is_shown() -> None:
    content = {"name": "a < b && c > d", "values": [1, 2.5, None], "yes": True}
    assert spec_of(charts.json_script(content)) == content
    content = {"a": np.array([1.0, np.nan]), "b": float("nan"), "c": np.float64(0.5), "d": "\x1b"}
    html = charts.json_script(content, "shared")
    assert 'class="shared"' in html
    assert not set("<>&") & set(html[len("<script") : -len("</script>")].split(">", 1)[1])
    assert spec_of(html) == {"a": [1, None], "b": None, "c": 0.5, "d": r"\x1b"}


@pytest.mark.parametrize("offset", [0.0, 2000.0, -1e9])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e6])
def test_short_numbers_keep_four_digits_of_the_spread(offset: float, scale: float) -> None:
    values = offset + scale * np.random.default_rng(0).normal(size=500)
    short = np.array(charts.short_numbers(values), dtype=float)
    resolution = max(1e-4 * scale * 10, 4e-16 * abs(offset))
    assert np.abs(short - values).max() <= resolution
    digits = [
        re.sub(r"e.*|[-.]", "", repr(value)).strip("0") for value in charts.short_numbers(values)
    ]
    assert max(map(len, digits)) <= 6 + max(0, math.ceil(math.log10((abs(offset) + 1) / scale)))


def test_wild_values_constants_gaps_and_extreme_numbers_are_kept() -> None:
    values = np.concatenate([np.linspace(0, 1, 100), [1e12]])
    short = np.array(charts.short_numbers(values), dtype=float)
    assert np.abs(short - values)[:-1].max() < 1e-3
    assert short[-1] == 1e12
    for numbers, expected in (
        ([5.0, 5.0], [5, 5]),
        ([0.0, 0.0], [0, 0]),
        ([np.nan, np.inf], [None, None]),
        ([1e-300, 2e-300], [1e-300, 2e-300]),
        ([], []),
    ):
        assert charts.short_numbers(np.array(numbers)) == expected
