"""Charts that the script of a page draws: lines, bands, points, histograms and maps of colours.

A chart is data. Its numbers stand in the page as JSON, rounded to what a reader can see, and
``assets/page.js`` draws them, shows values under the pointer and zooms. Arrays that several charts
use are written once, in an element of the class ``shared``, and named by the charts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jaxtyping import Shaped

from sswim.base.validation import visible
from sswim.report.page import Html, caption_html, escape

Layer = dict[str, Any]
"""What is drawn in a chart, as the script reads it."""

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


def layer(
    kind: Literal["line", "level", "band", "points", "spans", "rug", "boxes", "heat"],
    name: str = "",
    colour: int | None = 1,
    **data: Any,
) -> Layer:
    """Return a layer of a chart. Its numbers are arrays, or names of arrays that charts share.

    =========  =================================================================================
    line       through points ``x, y``, with gaps where values are not finite; ``style`` is
               ``"dash"``, ``"thin"`` or none
    level      dashed, ``at`` one height from end to end
    band       the area between ``lower`` and ``upper`` over ``x``; ``style`` may be ``"strong"``
    points     one for each row at ``x, y``; ``style`` may be ``"marks"`` for large points,
               ``numbers`` are those of the rows, and ``more`` are values to show, by their names
    spans      vertical lines at ``x`` from ``lower`` to ``upper``
    rug        short ticks at ``x`` along the bottom, one for each row
    boxes      of a histogram, between ``edges`` up to ``y``
    heat       colours of a rectangle: its ends ``x`` and ``y``, the ``values`` of the cells row by
               row from below, numbers of ``columns`` and ``rows``, and the values ``low`` and
               ``high`` of the first and the last colour
    =========  =================================================================================

    Args:
        kind: One of these kinds.
        name: Name in the legend, if any.
        colour: Number of the colour; 0 is grey, and None the scale of a heat.
        data: What the kind needs. ``rule=True`` makes the ends of the axes ignore a layer.
    """
    colours = {} if colour is None else {"colour": colour}
    return {"kind": kind, "name": name, **colours, **data}


def chart(
    title: str,
    x: Axis,
    y: Axis,
    *layers: Layer,
    caption: str = "",
    square: bool = False,
    ratio: float = 0.6,
) -> Html:
    """Return layers on common axes, as JSON in an HTML element.

    Args:
        title: Title of the chart.
        x: Horizontal axis.
        y: Vertical axis.
        layers: What is drawn, from back to front.
        caption: Text below the chart.
        square: Whether the chart is as high as it is wide.
        ratio: Height over width, unless the chart is square.
    """
    horizontal, vertical = (
        {name: value for name, value in vars(axis).items() if value not in (None, False)}
        for axis in (x, y)
    )
    spec = {
        "title": title,
        "alt": f"{title}. {caption}",
        "x": horizontal,
        "y": vertical,
        "layers": layers,
        "square": square,
        "ratio": ratio,
    }
    return Html(
        f'<figure class="card chart">\n<div class="chart-head"><h3>{escape(title)}</h3>'
        f'</div>\n<div class="plot"></div>{caption_html(caption)}\n{json_script(spec)}\n</figure>'
    )


def json_script(content: Any, kind: str = "") -> Html:
    r"""Return data as JSON in a script element of a class, which shows nothing.

    No text in it can end the element or begin a comment: <, > and & are written as \u003c and so
    on. Control characters are shown as escapes, and numbers that are not finite become null.
    """
    text = json.dumps(_plain(content), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    attribute = f' class="{kind}"' if kind else ""
    return Html(f'<script type="application/json"{attribute}>{text}</script>')


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
