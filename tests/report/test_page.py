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
TEXT = page.Text("inside")
X = np.array([0.0, 1.0, 2.0])
LAYERS = (
    charts.Line(X, X**2, NASTY),
    charts.Level(0.0),
    charts.Band(X, X - 1, X + 1),
    charts.Points("shared", X, numbers="shared", more={"more": "shared"}),
    charts.Spans(X, X, X + 1),
    charts.Rug(X),
    charts.Boxes(np.arange(4.0), X),
    charts.Heat((0.0, 1.0), (0.0, 1.0), np.arange(4.0), 2, 2, 0.0, 3.0, NASTY),
)
IMAGE = png(Drawing(figsize=(0.2, 0.2)), dpi=50)
SECTIONS: list[page.Section] = [
    page.Heading("Results"),
    page.Text("All in one."),
    page.Code("x < y"),
    page.Table(("name", "value"), (("a", "1.5"), ("b", "-2e3")), "Numbers."),
    page.Figure(IMAGE, "Nothing.", "An empty picture."),
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
    html = page.html_page("A page", [page.Part("first", "The first", (TEXT,))], has_script=True)
    assert html.count("<script>") == 1
    for part in ('<a href="#first">The first</a>', 'id="first"', 'value="dark"'):
        assert part in html
    assert "default-src 'none'" in html
    assert "script-src 'sha256-" in html


@pytest.mark.parametrize(
    ("section", "tag"),
    [
        (page.Heading(NASTY), "h2"),
        (page.Text(NASTY), "p"),
        (page.Code(NASTY), "code"),
        (page.Findings((NASTY,)), "li"),
        (page.Table((NASTY,), ()), "th"),
        (page.Table(("name",), ((NASTY,),)), "td"),
        (page.Table(("name",), (), NASTY), "caption"),
        (page.Table((NASTY,), (("1",),), sortable=True), "button"),
        (page.Figure(IMAGE, NASTY, NASTY), "figcaption"),
        (page.Part("place", NASTY, (TEXT,)), "h2"),
        (page.Part("place", "", (), NASTY), "p"),
        (page.Card(NASTY, (TEXT,)), "h3"),
        (page.Card("", (), NASTY), "figcaption"),
        (page.Details(NASTY, (TEXT,)), "summary"),
        (page.Choice("", ((NASTY, TEXT),)), "option"),
        (page.Grid((page.Tiles((page.Tile(NASTY, ""),)),), small=True), "div"),
        (page.Bars((page.Bar(NASTY, 1.0, "", (0.5, 1.5)), page.Bar("", -1.0, ""))), "span"),
        (charts.Chart(NASTY, charts.Axis("x"), charts.Axis("y"), ()), "h3"),
        (charts.Chart("", charts.Axis("x"), charts.Axis("y"), (), NASTY), "figcaption"),
    ],
)
def test_text_is_shown_and_never_executed(section: page.Section, tag: str) -> None:
    html = page.html_page(NASTY, [section])
    html.encode("utf-8")  # no lone surrogates
    assert len(re.findall("</title>", html)) == 1
    assert not re.search("<script>|<!--", html)
    reader = Reader(html)
    assert "".join(reader.text["h1"]) == SHOWN
    assert SHOWN in "".join(reader.text[tag])
    assert all(image["alt"] == SHOWN for image in reader.attributes("img"))


def test_sections_show_what_is_inside() -> None:
    for section in (
        page.Part("place", "", (TEXT,)),
        page.Grid((TEXT,)),
        page.Card("", (TEXT,)),
        page.Details("", (TEXT,)),
        page.Choice("Which", (("a", page.Text("")), ("b", TEXT))),
        page.Tiles((page.Tile("", "inside"),)),
        page.Tiles((page.Tile("", "", "inside"),)),
        page.Bars((page.Bar("", -1.0, "inside"),)),
    ):
        assert "inside" in section.html()


def test_lengths_of_bars_are_shares_of_the_longest() -> None:
    html = page.Bars((page.Bar("a", 1.0, "1", (0.5, 2.0)), page.Bar("b", -1.0, "−1"))).html()
    assert 'data-share="0.5000"' in html
    assert 'data-from="0.2500" data-to="1.0000"' in html
    assert 'data-share="0.0000"' in html


def test_rows_and_pictures_of_another_form_are_refused() -> None:
    with pytest.raises(ValueError, match=r"each of its 2 columns\. Got 1 in \('a',\)"):
        page.Table(("name", "value"), (("a",),))
    with pytest.raises(ValueError, match=r"must be the content of a PNG file\. Got"):
        page.Figure(b"<svg></svg>", "Nothing.")


def test_a_chart_holds_its_layers_as_json() -> None:
    axis = charts.Axis("y", levels=(NASTY,), zero=True)
    html = charts.Chart("A chart", charts.Axis("x"), axis, LAYERS).html()
    assert len(re.findall("<script", html)) == len(re.findall("</script", html)) == 1
    spec = spec_of(html)
    kinds = [layer["kind"] for layer in spec["layers"]]
    assert kinds == ["line", "level", "band", "points", "spans", "rug", "boxes", "heat"]
    assert spec["layers"][0]["name"] == SHOWN
    points = {"kind": "points", "x": "shared", "y": [0, 1, 2], "name": "", "colour": 1}
    assert spec["layers"][3] == points | {"numbers": "shared", "more": {"more": "shared"}}
    assert spec["y"] == {"label": "y", "levels": [SHOWN], "zero": True}


def test_shared_arrays_have_names() -> None:
    html = charts.SharedArrays({"a": np.array([1.0, np.nan]), "b": np.arange(2)}).html()
    assert 'class="shared"' in html
    assert spec_of(html) == {"a": [1, None], "b": [0, 1]}


def test_json_of_scripts_reads_back_as_what_is_shown() -> None:
    content = {"name": "a < b && c > d", "values": [1, 2.5, None], "yes": True}
    assert not set("<>&") & set(charts.script_json(content))
    assert json.loads(charts.script_json(content)) == content
    assert json.loads(charts.script_json(float("nan"))) is None
    assert json.loads(charts.script_json(np.float64(0.5))) == 0.5
    assert json.loads(charts.script_json("\x1b")) == r"\x1b"


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
