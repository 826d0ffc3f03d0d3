from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure as Drawing

from sswim.plotting import png
from sswim.report.page import (
    Code,
    Figure,
    Heading,
    Section,
    Table,
    Text,
    html_page,
    write_page,
)

NASTY = "<script>alert('x')</script> & \"quoted\" </title></style>"
IMAGE = png(Drawing(figsize=(0.2, 0.2)), dpi=50)
SECTIONS: list[Section] = [
    Heading("Results"),
    Text("All in one."),
    Code("x < y"),
    Table(("name", "value"), (("a", "1.5"), ("b", "-2e3")), "Numbers."),
    Figure(IMAGE, "Nothing.", "An empty picture."),
]
VOID = {"meta", "img", "link"}


class Reader(HTMLParser):
    """Parser that checks the nesting of elements and collects their attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.text.setdefault(self.open[-1], []).append(data)

    def attributes(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.seen if name == tag]


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader


def test_a_page_is_well_formed_and_has_all_its_parts() -> None:
    html = html_page("A page", SECTIONS)
    assert html.startswith("<!DOCTYPE html>")
    reader = read(html)
    assert reader.text["title"] == reader.text["h1"] == ["A page"]
    assert reader.text["h2"] == ["Results"]
    assert reader.text["p"] == ["All in one."]
    assert reader.text["code"] == ["x < y"]
    assert reader.text["caption"] == ["Numbers."]
    assert reader.text["th"] == ["name", "value"]
    assert reader.text["td"] == ["a", "1.5", "b", "-2e3"]
    assert reader.text["figcaption"] == ["An empty picture."]
    assert reader.attributes("html") == [{"lang": "en", "data-theme": "auto"}]


def test_a_page_needs_nothing_but_itself() -> None:
    html = html_page("A page", SECTIONS)
    assert "://" not in html
    assert "url(" not in html
    assert "@import" not in html
    reader = read(html)
    assert not {"script", "iframe"} & {tag for tag, _ in reader.seen}
    assert reader.attributes("link") == [{"rel": "icon", "href": "data:,"}]
    (image,) = reader.attributes("img")
    assert image["alt"] == "Nothing."
    kind, data = str(image["src"]).split(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(data, validate=True) == IMAGE


def test_a_page_suits_light_and_dark() -> None:
    assert "color-scheme: light dark" in html_page("A page", [])


@pytest.mark.parametrize(
    ("section", "tag"),
    [
        (Heading(NASTY), "h2"),
        (Text(NASTY), "p"),
        (Code(NASTY), "code"),
        (Table((NASTY,), ()), "th"),
        (Table(("name",), ((NASTY,),)), "td"),
        (Table(("name",), (), NASTY), "caption"),
        (Figure(IMAGE, "", NASTY), "figcaption"),
    ],
)
def test_text_is_shown_and_never_executed(section: Section, tag: str) -> None:
    html = html_page("A page", [section])
    assert "<script" not in html
    reader = read(html)
    assert "".join(reader.text[tag]) == NASTY


def test_titles_and_descriptions_are_escaped_too() -> None:
    html = html_page(NASTY, [Figure(IMAGE, NASTY)])
    assert "<script" not in html
    assert len(re.findall("</title>", html)) == 1
    reader = read(html)
    assert "".join(reader.text["h1"]) == NASTY
    assert [image["alt"] for image in reader.attributes("img")] == [NASTY]


def test_heads_of_sortable_tables_are_buttons() -> None:
    html = html_page("A page", [Table((NASTY,), (("1",),), sortable=True)])
    assert "<script" not in html
    reader = read(html)
    assert "".join(reader.text["button"]) == NASTY
    assert reader.attributes("table") == [{"class": "sortable"}]


def test_columns_of_numbers_stand_to_the_right() -> None:
    reader = read(html_page("A page", SECTIONS))
    assert [cell.get("class") for cell in reader.attributes("td")] == [None, "number"] * 2
    assert [cell.get("class") for cell in reader.attributes("th")] == [None, "number"]


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"each of its 2 columns\. Got 1 in \('a',\)"):
        Table(("name", "value"), (("a",),))


def test_a_picture_in_another_format_is_refused() -> None:
    buffer = io.BytesIO()
    Drawing().savefig(buffer, format="svg")
    with pytest.raises(ValueError, match=r"must be the content of a PNG file\. Got"):
        Figure(buffer.getvalue(), "Nothing.")


def test_a_page_is_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    html = html_page("± 2 σ, naïve", SECTIONS)
    write_page(path, html)
    assert path.read_text(encoding="utf-8") == html
    assert list(tmp_path.iterdir()) == [path]


def test_a_page_needs_a_folder_that_exists(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Make the folder .* first"):
        write_page(tmp_path / "missing" / "page.html", "")
