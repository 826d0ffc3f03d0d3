"""Self-contained HTML pages: one file with its text, tables, pictures and charts, and no links.

The functions here return pieces of HTML: text, tables and pictures, and others that arrange pieces
in parts, grids, cards and choices; :mod:`sswim.report.charts` has the charts. ``html_page`` makes a
page of them, and ``write_page`` writes the file.

A page makes no requests: its content security policy forbids all of them, and runs no script but
its own, which it knows by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import os
from collections.abc import Sequence
from importlib.resources import files
from typing import NamedTuple, NewType

from sswim.base.validation import visible
from sswim.files.output_files import atomic_write

Html = NewType("Html", str)
"""HTML in which all text is escaped."""

_ASSETS = files("sswim.report") / "assets"
"""Folder of the style and the script of pages."""

_THEMES = {"auto": "Auto", "light": "Light", "dark": "Dark"}
"""Labels of the switch between colours; ``auto`` follows the reader's system."""


class Part(NamedTuple):
    """A part of a page, with a heading to which the bar at the top links."""

    place: str
    """The ``id`` of its element, of letters and hyphens."""
    title: str
    sections: Sequence[Html]
    lead: str = ""
    """Introduction of one or two sentences."""


def html_page(title: str, sections: Sequence[Html], parts: Sequence[Part] = ()) -> str:
    """Return the HTML of a page, light or dark as the reader's system.

    Args:
        title: Title of the page.
        sections: What is below the title.
        parts: Parts that follow. A page with parts has a bar with links to them, and the script
            that draws charts, sorts tables and switches between light and dark colours.
    """
    style = (_ASSETS / "page.css").read_text("utf-8")
    script = (_ASSETS / "page.js").read_text("utf-8") if parts else ""
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
{_navigation(parts)}<main>
<header><h1>{escape(title)}</h1>{_switch() if script else ""}</header>
{_join([*sections, *map(_part, parts)])}
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


def heading(text: str) -> Html:
    """Return a heading above other sections."""
    return Html(f"<h2>{escape(text)}</h2>")


def paragraph(text: str) -> Html:
    """Return a paragraph of text."""
    return Html(f"<p>{escape(text)}</p>")


def code(text: str) -> Html:
    """Return lines of code, shown as they are."""
    return Html(f'<pre class="wide"><code>{escape(text)}</code></pre>')


def findings(sentences: Sequence[str]) -> Html:
    """Return a list of sentences."""
    items = "\n".join(f"<li>{escape(sentence)}</li>" for sentence in sentences)
    return Html(f'<ul class="findings">\n{items}\n</ul>')


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str = "",
    *,
    sortable: bool = False,
) -> Html:
    """Return a table with named columns; columns of numbers are aligned to the right.

    Args:
        columns: Names of the columns.
        rows: Texts of the cells.
        caption: Text above the table.
        sortable: Whether a click on the head of a column sorts the rows, in a page with a script.
    """
    heads = [escape(name) for name in columns]
    if sortable:
        heads = [f'<button type="button" title="{text}">{text}</button>' for text in heads]
    classes = [
        ' class="number"' if _are_numbers([row[column] for row in rows]) else ""
        for column in range(len(columns))
    ]
    head = "".join(
        f'<th scope="col"{kind}>{text}</th>' for text, kind in zip(heads, classes, strict=True)
    )
    body = ""
    for row in rows:
        cells = zip(row, classes, strict=True)
        body += f"<tr>{''.join(f'<td{kind}>{escape(cell)}</td>' for cell, kind in cells)}</tr>\n"
    above = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    kind = ' class="sortable"' if sortable else ""
    return Html(
        f'<div class="wide"><table{kind}>\n{above}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody>\n</table></div>"
    )


def _are_numbers(cells: Sequence[str]) -> bool:
    """Return whether cells can be read as numbers, apart from empty ones."""
    filled = [cell for cell in cells if cell]
    try:
        for cell in filled:
            float(cell.replace(",", "").replace("−", "-"))
    except ValueError:
        return False
    return bool(filled)


def picture(png: bytes, alt: str, caption: str = "") -> Html:
    """Return a picture, given the content of a PNG file and a description for blind readers."""
    data = base64.b64encode(png).decode("ascii")
    return Html(
        f'<figure>\n<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'
        f"{caption_html(caption)}\n</figure>"
    )


def tiles(numbers: Sequence[tuple[str, str, str]]) -> Html:
    """Return a row of the numbers that matter most, each given by name, value and note."""
    items = "\n".join(
        f'<div class="tile"><div class="name">{escape(name)}</div>'
        f'<div class="value">{escape(value)}</div><div class="note">{escape(note)}</div></div>'
        for name, value, note in numbers
    )
    return Html(f'<div class="tiles">\n{items}\n</div>')


class Bar(NamedTuple):
    """A named number as a bar, with ± a deviation if it has one."""

    name: str
    value: float
    text: str
    deviation: float | None = None


def bars(rows: Sequence[Bar]) -> Html:
    """Return numbers as horizontal bars, which begin at zero; a script sets their lengths."""
    unit = max((end for bar in rows if (end := bar.value + (bar.deviation or 0.0)) > 0), default=1)

    def share(value: float) -> str:
        return f"{min(max(value / unit, 0.0), 1.0):.4f}"

    items = []
    for bar in rows:
        whisker, name = "", escape(bar.name)
        if bar.deviation is not None:
            low, high = share(bar.value - bar.deviation), share(bar.value + bar.deviation)
            whisker = f'<span class="whisker" data-from="{low}" data-to="{high}"></span>'
        items.append(
            f'<li><span class="name" title="{name}">{name}</span><span class="track">'
            f'<span class="fill" data-share="{share(bar.value)}"></span>{whisker}</span>'
            f'<span class="value">{escape(bar.text)}</span></li>\n'
        )
    return Html(f'<ol class="bars">\n{"".join(items)}</ol>')


def grid(*sections: Html, small: bool = False) -> Html:
    """Return sections side by side, as many as the width of the page has room for.

    Args:
        sections: The sections.
        small: Whether three sections fit where otherwise two do.
    """
    kind = "grid small" if small else "grid"
    return Html(f'<div class="{kind}">\n{_join(sections)}\n</div>')


def card(title: str, *sections: Html, caption: str = "") -> Html:
    """Return sections in a frame, with a title."""
    head = f"<h3>{escape(title)}</h3>\n" if title else ""
    inside = f"{head}{_join(sections)}{caption_html(caption)}"
    return Html(f'<figure class="card">\n{inside}\n</figure>')


def details(title: str, section: Html) -> Html:
    """Return a section that is shown when the reader opens it."""
    return Html(f"<details>\n<summary>{escape(title)}</summary>\n{section}\n</details>")


def choice(label: str, sections: Sequence[tuple[str, Html]]) -> Html:
    """Return named sections of which the reader chooses one; all are shown without a script."""
    options = "".join(f"<option>{escape(name)}</option>" for name, _ in sections)
    shown = "\n".join(f'<div class="option">\n{section}\n</div>' for _, section in sections)
    return Html(
        f'<div class="choice">\n<label class="choice-head">{escape(label)} '
        f'<select autocomplete="off">{options}</select></label>\n{shown}\n</div>'
    )


def _join(sections: Sequence[Html]) -> str:
    return "\n".join(sections)


def _part(part: Part) -> Html:
    lead = f"<p>{escape(part.lead)}</p>\n" if part.lead else ""
    return Html(
        f'<section id="{escape(part.place)}">\n<h2>{escape(part.title)}</h2>\n{lead}'
        f"{_join(part.sections)}\n</section>"
    )


def _navigation(parts: Sequence[Part]) -> str:
    """Return the bar at the top of a page, if it has parts."""
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
