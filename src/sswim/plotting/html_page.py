"""Self-contained HTML pages: one file with its text, tables and figures, and no links.

A page is a title and a sequence of sections, such as ``Text`` or ``Figure``. ``html_page`` turns
them into HTML and ``write_page`` writes the file.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from sswim.base.files import atomic_write

_PNG = b"\x89PNG\r\n\x1a\n"

_STYLE = """\
:root { color-scheme: light dark; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.2rem; margin-top: 2rem; }
figure { margin: 1.5rem 0; }
figcaption, caption { font-size: 0.9rem; opacity: 0.8; text-align: left; padding: 0.3rem 0; }
img { display: block; max-width: 100%; height: auto; background: white; border-radius: 4px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 0.25rem 1rem 0.25rem 0; text-align: left; }
th { border-bottom: 1px solid; font-weight: 600; }
.number { text-align: right; }
pre { padding: 0.8rem 1rem; border: 1px solid rgb(128 128 128 / 0.4); border-radius: 4px; }
"""


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
class Table:
    """A table with named columns; columns of numbers are aligned to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

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
        numeric = [
            bool(self.rows) and all(_is_number(row[column]) for row in self.rows)
            for column in range(len(self.columns))
        ]
        head = "".join(
            f'<th scope="col"{_cell_class(is_number)}>{escape(name)}</th>'
            for name, is_number in zip(self.columns, numeric, strict=True)
        )
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{_cell_class(is_number)}>{escape(cell)}</td>"
                for cell, is_number in zip(row, numeric, strict=True)
            )
            + "</tr>\n"
            for row in self.rows
        )
        return (
            f'<div class="wide"><table>\n{caption}<thead><tr>{head}</tr></thead>\n'
            f"<tbody>\n{body}</tbody>\n</table></div>"
        )


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
        caption = f"\n<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return (
            f'<figure>\n<img alt="{escape(self.alt)}" src="data:image/png;base64,{data}">'
            f"{caption}\n</figure>"
        )


Section = Heading | Text | Code | Table | Figure


def html_page(title: str, sections: Sequence[Section]) -> str:
    """Return the HTML of a page, light or dark as the reader's system; all text is escaped."""
    body = "\n".join(section.html() for section in sections)
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
{body}
</body>
</html>
"""


def write_page(path: str | os.PathLike[str], html: str) -> None:
    """Write a page to a file; if that fails, an earlier file stays as it was."""
    with atomic_write(path) as temporary:
        temporary.write_text(html, encoding="utf-8")


def _is_number(cell: str) -> bool:
    """Return whether a cell can be read as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _cell_class(is_number: bool) -> str:
    """Return the class attribute of a cell."""
    return ' class="number"' if is_number else ""
