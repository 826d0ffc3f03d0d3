"""Self-contained HTML pages: one file with its text, tables, pictures and charts, and no links.

A page is a title and a sequence of sections: text, tables, pictures, charts (those of
:mod:`sswim.report.charts`), and others that arrange sections: parts, grids, cards and choices.
``html_page`` turns all of them into HTML, and ``write_page`` writes the file.

A page makes no requests: its content security policy forbids all of them, and runs no script but
its own, which it knows by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Protocol, runtime_checkable

from sswim.base.validation import visible
from sswim.files.output_files import atomic_write

_ASSETS = files("sswim.report") / "assets"
"""Folder of the style and the script of pages."""

_PNG = b"\x89PNG\r\n\x1a\n"

_THEMES = {"auto": "Auto", "light": "Light", "dark": "Dark"}
"""Labels of the switch between colours; ``auto`` follows the reader's system."""


@runtime_checkable
class Section(Protocol):
    """Something on a page."""

    def html(self) -> str:
        """Return the HTML element; all text in it is escaped."""


def html_page(title: str, sections: Sequence[Section], *, has_script: bool = False) -> str:
    """Return the HTML of a page, light or dark as the reader's system; all text is escaped.

    Args:
        title: Title of the page.
        sections: What is below the title. A bar at the top has links to its parts.
        has_script: Whether the page has the script that draws charts, sorts tables and switches
            between light and dark colours.
    """
    style = (_ASSETS / "page.css").read_text("utf-8")
    script = (_ASSETS / "page.js").read_text("utf-8") if has_script else ""
    policy = (
        "default-src 'none'",
        f"style-src {_digest(style)}",
        f"script-src {_digest(script)}" if script else "script-src 'none'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'none'",
    )
    rules = "; ".join(policy)
    program = f"<script>{script}</script>\n" if script else ""
    return f"""\
<!DOCTYPE html>
<html lang="en" data-theme="auto">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{rules}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{_navigation(sections)}<main>
<header><h1>{escape(title)}</h1>{_switch() if script else ""}</header>
{_join(sections)}
</main>
{program}</body>
</html>
"""


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page to a file; if that fails, an earlier file stays as it was."""
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def escape(text: str) -> str:
    """Return text as HTML that shows it as it is, control characters as escapes."""
    return html.escape(visible(text))


def caption_html(caption: str) -> str:
    """Return the caption of a figure, if it has one."""
    return f"\n<figcaption>{escape(caption)}</figcaption>" if caption else ""


@dataclass(frozen=True)
class Heading:
    """A heading above other sections."""

    text: str

    def html(self) -> str:
        """Return the HTML element."""
        return f"<h2>{escape(self.text)}</h2>"


@dataclass(frozen=True)
class Text:
    """A paragraph of text."""

    text: str

    def html(self) -> str:
        """Return the HTML element."""
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Code:
    """Lines of code, shown as they are."""

    text: str

    def html(self) -> str:
        """Return the HTML element."""
        return f'<pre class="wide"><code>{escape(self.text)}</code></pre>'


@dataclass(frozen=True)
class Findings:
    """A list of sentences."""

    sentences: tuple[str, ...]

    def html(self) -> str:
        """Return the HTML element."""
        items = "\n".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences)
        return f'<ul class="findings">\n{items}\n</ul>'


@dataclass(frozen=True)
class Table:
    """A table with named columns; columns of numbers are aligned to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    sortable: bool = False
    """Whether a click on the head of a column sorts the rows, in a page with a script."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"Every row of a table must have one cell for each of its {len(self.columns)} "
                    f"columns. Got {len(row)} in {row}."
                )

    def html(self) -> str:
        """Return the HTML element."""
        caption = f"<caption>{escape(self.caption)}</caption>\n" if self.caption else ""
        classes = [
            ' class="number"' if _are_numbers([row[column] for row in self.rows]) else ""
            for column in range(len(self.columns))
        ]
        head = "".join(
            f'<th scope="col"{kind}>{self._head(name)}</th>'
            for name, kind in zip(self.columns, classes, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(row, classes, strict=True)
            )
            + "</tr>\n"
            for row in self.rows
        )
        sortable = ' class="sortable"' if self.sortable else ""
        return (
            f'<div class="wide"><table{sortable}>\n{caption}<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}</tbody>\n</table></div>"
        )

    def _head(self, name: str) -> str:
        text = escape(name)
        return f'<button type="button" title="{text}">{text}</button>' if self.sortable else text


def _are_numbers(cells: Sequence[str]) -> bool:
    """Return whether cells can be read as numbers, apart from empty ones."""
    filled = [cell for cell in cells if cell]
    try:
        for cell in filled:
            float(cell.replace(",", "").replace("−", "-"))
    except ValueError:
        return False
    return bool(filled)


@dataclass(frozen=True)
class Figure:
    """A picture, as the content of a PNG file, with a description for those who cannot see it."""

    png: bytes
    alt: str
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.png.startswith(_PNG):
            raise ValueError(
                f"A figure must be the content of a PNG file. Got {self.png[:8]!r} at its start."
            )

    def html(self) -> str:
        """Return the HTML element."""
        data = base64.b64encode(self.png).decode("ascii")
        return (
            f'<figure>\n<img alt="{escape(self.alt)}" src="data:image/png;base64,{data}">'
            f"{caption_html(self.caption)}\n</figure>"
        )


@dataclass(frozen=True)
class Tile:
    """A number that matters most, with its name and a note."""

    name: str
    value: str
    note: str = ""

    def html(self) -> str:
        """Return the HTML element."""
        return (
            f'<div class="tile"><div class="name">{escape(self.name)}</div>'
            f'<div class="value">{escape(self.value)}</div>'
            f'<div class="note">{escape(self.note)}</div></div>'
        )


@dataclass(frozen=True)
class Tiles:
    """A row of tiles."""

    tiles: tuple[Tile, ...]

    def html(self) -> str:
        """Return the HTML element."""
        return f'<div class="tiles">\n{_join(self.tiles)}\n</div>'


@dataclass(frozen=True)
class Bar:
    """A named number as a bar, with an interval if it has one."""

    name: str
    value: float
    text: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Bars:
    """Numbers as horizontal bars, which begin at zero."""

    bars: tuple[Bar, ...]

    def html(self) -> str:
        """Return the HTML element; a script sets the lengths."""
        ends = [end for bar in self.bars for end in (bar.value, *(bar.interval or ()))]
        unit = max((end for end in ends if end > 0), default=1.0)
        items = "\n".join(_bar(bar, unit) for bar in self.bars)
        return f'<ol class="bars">\n{items}\n</ol>'


def _bar(bar: Bar, unit: float) -> str:
    whisker = ""
    if bar.interval is not None:
        low, high = (_share(end, unit) for end in bar.interval)
        whisker = f'<span class="whisker" data-from="{low}" data-to="{high}"></span>'
    name = escape(bar.name)
    return (
        f'<li><span class="name" title="{name}">{name}</span><span class="track">'
        f'<span class="fill" data-share="{_share(bar.value, unit)}"></span>{whisker}</span>'
        f'<span class="value">{escape(bar.text)}</span></li>'
    )


def _share(value: float, unit: float) -> str:
    return f"{min(max(value / unit, 0.0), 1.0):.4f}"


@dataclass(frozen=True)
class Part:
    """A part of a page, with a heading that links can name."""

    place: str
    """The ``id`` of its element, of letters and hyphens."""
    title: str
    sections: tuple[Section, ...]
    lead: str = ""
    """Introduction of one or two sentences."""

    def html(self) -> str:
        """Return the HTML element."""
        lead = f"<p>{escape(self.lead)}</p>\n" if self.lead else ""
        return (
            f'<section id="{escape(self.place)}">\n<h2>{escape(self.title)}</h2>\n{lead}'
            f"{_join(self.sections)}\n</section>"
        )


@dataclass(frozen=True)
class Grid:
    """Sections side by side, as many as the width of the page has room for."""

    sections: tuple[Section, ...]
    small: bool = False
    """Whether three sections fit where otherwise two do."""

    def html(self) -> str:
        """Return the HTML element."""
        kind = "grid small" if self.small else "grid"
        return f'<div class="{kind}">\n{_join(self.sections)}\n</div>'


@dataclass(frozen=True)
class Card:
    """Sections in a frame, with a title."""

    title: str
    sections: tuple[Section, ...]
    caption: str = ""

    def html(self) -> str:
        """Return the HTML element."""
        title = f"<h3>{escape(self.title)}</h3>\n" if self.title else ""
        caption = caption_html(self.caption)
        return f'<figure class="card">\n{title}{_join(self.sections)}{caption}\n</figure>'


@dataclass(frozen=True)
class Details:
    """Sections that are shown when the reader opens them."""

    title: str
    sections: tuple[Section, ...]

    def html(self) -> str:
        """Return the HTML element."""
        summary = f"<summary>{escape(self.title)}</summary>"
        return f"<details>\n{summary}\n{_join(self.sections)}\n</details>"


@dataclass(frozen=True)
class Choice:
    """Sections of which one is shown at a time; the reader chooses it by its name."""

    label: str
    sections: tuple[tuple[str, Section], ...]
    """The sections with their names."""

    def html(self) -> str:
        """Return the HTML element; without a script all sections are shown."""
        options = "".join(f"<option>{escape(name)}</option>" for name, _ in self.sections)
        sections = "\n".join(
            f'<div class="option">\n{section.html()}\n</div>' for _, section in self.sections
        )
        return (
            f'<div class="choice">\n<label class="choice-head">{escape(self.label)} '
            f'<select autocomplete="off">{options}</select></label>\n{sections}\n</div>'
        )


def _join(sections: Sequence[Section]) -> str:
    return "\n".join(section.html() for section in sections)


def _navigation(sections: Sequence[Section]) -> str:
    """Return the bar at the top of a page, if it has parts."""
    parts = [section for section in sections if isinstance(section, Part)]
    items = "".join(f'<a href="#{escape(part.place)}">{escape(part.title)}</a>' for part in parts)
    return f'<nav class="bar" aria-label="Parts">{items}</nav>\n' if parts else ""


def _switch() -> str:
    """Return the switch between light and dark colours."""
    buttons = "".join(
        f'<button type="button" value="{value}" aria-pressed="{str(value == "auto").lower()}">'
        f"{label}</button>"
        for value, label in _THEMES.items()
    )
    return f'<div class="themes" role="group" aria-label="Colours">{buttons}</div>'


def _digest(content: str) -> str:
    """Return the hash by which a policy allows an inline style or script."""
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
