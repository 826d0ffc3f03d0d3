"""Charts that the script of a page draws: lines, bands, points, histograms and maps of colours.

A chart is data. Its numbers stand in the page as JSON, rounded to what a reader can see, and
``assets/page.js`` draws them, shows values under the pointer and zooms. Arrays that several charts
use are written once, in ``SharedArrays``, and named by the charts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Shaped

from sswim.base.validation import visible
from sswim.report.page import caption_html, escape

Values = Shaped[np.ndarray, " n"] | str
"""Numbers, or the name of numbers in ``SharedArrays``."""

_DIGITS = 4
"""Number of decimal digits in which the spread of numbers is written."""


@dataclass(frozen=True)
class Axis:
    """An axis of a chart."""

    label: str
    levels: tuple[str, ...] | None = None
    """Names of the places 0, 1, … for categories."""
    time: bool = False
    """Whether numbers are seconds since 1970, shown as dates."""
    domain: tuple[float, float] | None = None
    """Ends of the axis; by default those of the data."""
    zero: bool = False
    """Whether the axis begins at zero if no number is negative."""


@dataclass(frozen=True)
class Line:
    """A line through points; it has gaps where values are not finite."""

    kind: ClassVar[str] = "line"
    x: Values
    y: Values
    name: str = ""
    colour: int = 1
    style: str | None = None
    """``"dash"``, ``"thin"`` or nothing."""
    rule: bool = False
    """Whether it is a line of reference, which the ends of the axes ignore."""


@dataclass(frozen=True)
class Level:
    """A dashed line of reference at one height, from end to end."""

    kind: ClassVar[str] = "level"
    at: float
    name: str = ""
    colour: int = 0


@dataclass(frozen=True)
class Band:
    """The area between two lines."""

    kind: ClassVar[str] = "band"
    x: Values
    lower: Values
    upper: Values
    name: str = ""
    colour: int = 1
    style: str | None = None
    """``"strong"`` or nothing."""
    rule: bool = False
    """Whether it is a band of reference, which the ends of the axes ignore."""


@dataclass(frozen=True)
class Points:
    """Points, one for each row."""

    kind: ClassVar[str] = "points"
    x: Values
    y: Values
    name: str = ""
    colour: int = 1
    style: str | None = None
    """``"marks"`` for large points, or nothing."""
    numbers: Values | None = None
    """Numbers of the rows, shown with a point."""
    more: Mapping[str, Values] = field(default_factory=dict)
    """Further values that are shown with a point, by their names."""


@dataclass(frozen=True)
class Spans:
    """Vertical lines from one value to another."""

    kind: ClassVar[str] = "spans"
    x: Values
    lower: Values
    upper: Values
    name: str = ""
    colour: int = 1


@dataclass(frozen=True)
class Rug:
    """Short ticks along the bottom, one for each row."""

    kind: ClassVar[str] = "rug"
    x: Values
    name: str = ""
    colour: int = 0


@dataclass(frozen=True)
class Boxes:
    """The boxes of a histogram."""

    kind: ClassVar[str] = "boxes"
    edges: Shaped[np.ndarray, " edges"]
    """Ends of the boxes, one more than there are boxes."""
    y: Values
    name: str = ""
    colour: int = 1


@dataclass(frozen=True)
class Heat:
    """Colours of the cells of a rectangle."""

    kind: ClassVar[str] = "heat"
    x: tuple[float, float]
    """Left and right end."""
    y: tuple[float, float]
    """Lower and upper end."""
    values: Values
    """Values of the cells, row by row from below."""
    columns: int
    rows: int
    low: float
    """Value of the first colour."""
    high: float
    """Value of the last colour."""
    name: str = ""


Layer = Line | Level | Band | Points | Spans | Rug | Boxes | Heat


@dataclass(frozen=True)
class Chart:
    """Layers on common axes."""

    title: str
    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    caption: str = ""
    square: bool = False
    ratio: float = 0.6
    """Height over width, unless the chart is square."""

    def html(self) -> str:
        """Return the HTML element, with the chart as JSON in it."""
        spec = {
            "title": self.title,
            "alt": f"{self.title}. {self.caption}",
            "x": _as_dict(self.x),
            "y": _as_dict(self.y),
            "layers": [{"kind": layer.kind, **_as_dict(layer)} for layer in self.layers],
            "square": self.square,
            "ratio": self.ratio,
        }
        return (
            f'<figure class="card chart">\n<div class="chart-head"><h3>{escape(self.title)}</h3>'
            f'</div>\n<div class="plot"></div>{caption_html(self.caption)}\n'
            f"{_json_script(spec)}\n</figure>"
        )


@dataclass(frozen=True)
class SharedArrays:
    """Numbers that several charts use, by their names."""

    arrays: Mapping[str, Shaped[np.ndarray, " n"]]

    def html(self) -> str:
        """Return the HTML element, which shows nothing."""
        return _json_script(dict(self.arrays), "shared")


def script_json(content: Any) -> str:
    r"""Return content as JSON that can stand inside a script element.

    No text in it can end the element or begin a comment: <, > and & are written as \u003c and so
    on. Control characters are shown as escapes, and numbers that are not finite become null.
    """
    text = json.dumps(_plain(content), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _json_script(content: Any, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    return f'<script type="application/json"{attribute}>{script_json(content)}</script>'


def _as_dict(record: Axis | Layer) -> dict[str, Any]:
    """Return the fields of a record that are not empty."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    return {
        name: value
        for name, value in values.items()
        if value is not None
        and value is not False
        and not (isinstance(value, Mapping) and not value)
    }


def _plain(content: Any) -> Any:
    """Return content as JSON knows it."""
    if isinstance(content, np.ndarray):
        return short_numbers(content)
    if isinstance(content, Mapping):
        return {visible(str(name)): _plain(value) for name, value in content.items()}
    if isinstance(content, str):
        return visible(content)
    if isinstance(content, Sequence):
        return [_plain(value) for value in content]
    if isinstance(content, np.generic):
        content = content.item()
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content


def short_numbers(values: Shaped[np.ndarray, " n"]) -> list[float | int | None]:
    """Return numbers with as few digits as tell their spread apart; None if they are not finite.

    The spread is that of the middle nine tenths: a few wild values do not cost the others digits.
    """
    if values.dtype.kind in "iub":
        return values.astype(int).tolist()
    finite = values[np.isfinite(values)]
    if not finite.size:
        return [None] * len(values)
    low, high = np.quantile(finite, [0.05, 0.95])
    spread = float(high - low) or float(finite.max() - finite.min()) or abs(float(finite[0])) or 1.0
    decimals = _DIGITS - math.floor(math.log10(spread))
    rounded = np.round(values, decimals) if abs(decimals) < 290 else values
    # Rounding to tens leaves whole numbers, whose ".0" would only take room.
    return [_shortest(value) if math.isfinite(value) else None for value in rounded.tolist()]


def _shortest(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
