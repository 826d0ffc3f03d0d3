"""Sections of a page that arrange others: parts, grids, choices; tiles, bars and lists of text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sswim.plotting.html_page import Section, escape


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
    """Whether they are small, so that three fit where otherwise two do."""

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
        caption = f"\n<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
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
    names: tuple[str, ...]
    sections: tuple[Section, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.sections):
            raise ValueError(
                f"Every section of a choice must have a name. Got {len(self.names)} names for "
                f"{len(self.sections)} sections."
            )

    def html(self) -> str:
        """Return the HTML element; without a script all sections are shown."""
        options = "".join(f"<option>{escape(name)}</option>" for name in self.names)
        sections = "\n".join(
            f'<div class="option">\n{each.html()}\n</div>' for each in self.sections
        )
        return (
            f'<div class="choice">\n<label class="choice-head">{escape(self.label)} '
            f'<select autocomplete="off">{options}</select></label>\n{sections}\n</div>'
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
class Findings:
    """A list of sentences."""

    sentences: tuple[str, ...]

    def html(self) -> str:
        """Return the HTML element."""
        items = "\n".join(f"<li>{escape(sentence)}</li>" for sentence in self.sentences)
        return f'<ul class="findings">\n{items}\n</ul>'


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


def _join(sections: Sequence[Section]) -> str:
    return "\n".join(section.html() for section in sections)
