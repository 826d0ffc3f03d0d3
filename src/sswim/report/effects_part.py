"""The part of a report about columns: which matter to the model, and how."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Shaped

from sswim.insight.effect import Effect
from sswim.insight.relevance import Relevance
from sswim.plotting.charts import Axis, Band, Chart, Layer, Line, Points, Rug, Spans
from sswim.plotting.html_page import Heading, Text
from sswim.plotting.page_layout import Bar, Bars, Card, Grid, Part
from sswim.report.insight import Insight
from sswim.report.numbers import number, percent
from sswim.rows.row_sample import smallest_keys

_MAX_TICKS = 60
"""Largest number of rows that are shown as ticks below an effect."""

_MAX_BARS = 12
"""Largest number of columns in a chart of bars."""


def effects_part(insight: Insight, target: str) -> Part:
    """Return importance and relevance of columns as bars, and the effects of the first ones."""
    lead = "Which columns the model draws on, and what it makes of them."
    bars = Grid((_importance_card(insight), _relevance_card(insight.relevance)))
    effects = insight.effects
    if not effects:
        return Part("effects", "What matters", (bars,), lead)
    low = min(float(effect.lower.min()) for effect in effects)
    high = max(float(effect.upper.max()) for effect in effects)
    room = 0.04 * (high - low) or 1.0
    domain = low - room, high + room
    charts = Grid(tuple(_effect_chart(effect, target, domain) for effect in effects), small=True)
    words = (
        f"The predicted mean of {target} if a column had another value, averaged over "
        f"{effects[0].n_rows} rows, with 90 % bands of that average. All charts have the same "
        "scale; ticks at the bottom are rows."
    )
    return Part("effects", "What matters", (bars, Heading("Effects"), Text(words), charts), lead)


def _importance_card(insight: Insight) -> Card:
    shown = insight.importance[:_MAX_BARS]
    bars = Bars(
        tuple(
            Bar(
                column.name,
                column.rmse.mean,
                number(column.rmse.mean, 2),
                (
                    column.rmse.mean - column.rmse.deviation,
                    column.rmse.mean + column.rmse.deviation,
                ),
            )
            for column in shown
        )
    )
    caption = (
        f"How much the RMSE rises when a column is shuffled among {insight.n_shuffled:,} rows; "
        "lines are ± 1 standard deviation over shuffles."
    )
    return Card("Importance", (bars,), caption + _others(len(insight.importance)))


def _relevance_card(relevance: Relevance) -> Card:
    order = np.argsort(-relevance.relevance, kind="stable")[:_MAX_BARS]
    shares = relevance.relevance
    bars = Bars(
        tuple(
            Bar(relevance.names[at], float(shares[at]), percent(float(shares[at]))) for at in order
        )
    )
    caption = (
        "How much of the variance of the predicted function each column makes, as shares: what the "
        "model has learnt, whether or not it was right."
    )
    return Card("Relevance", (bars,), caption + _others(len(relevance.names)))


def _others(n_columns: int) -> str:
    return f" The first {_MAX_BARS} of {n_columns} columns." if n_columns > _MAX_BARS else ""


def _effect_chart(effect: Effect, target: str, domain: tuple[float, float]) -> Chart:
    [name] = effect.names
    x, axis = _axis(name, effect.grids[0])
    mean, lower, upper = (
        each.reshape(len(x)) for each in (effect.mean, effect.lower, effect.upper)
    )
    layers: tuple[Layer, ...]
    if axis.levels is None:
        chosen = smallest_keys(np.arange(len(effect.rows[0])), _MAX_TICKS)
        rows, _ = _axis(name, effect.rows[0][chosen])
        layers = (Band(x, lower, upper, colour=1), Line(x, mean, colour=1), Rug(rows))
    else:
        layers = (Spans(x, lower, upper, colour=1), Points(x, mean, colour=1, style="marks"))
    return Chart(name, axis, Axis(f"mean of {target}", domain=domain), layers, ratio=0.7)


def _axis(name: str, grid: Shaped[np.ndarray, " n"]) -> tuple[Float64[np.ndarray, " n"], Axis]:
    """Return where values are drawn, and the axis for them: of numbers, times or levels."""
    if grid.dtype.kind == "M":
        seconds = grid.astype("datetime64[us]").astype(np.int64) / 1e6
        return seconds, Axis(name, time=True)
    if grid.dtype.kind in "fiub":
        return grid.astype(np.float64), Axis(name)
    levels = tuple("missing" if level is None else str(level) for level in grid)
    return np.arange(len(levels), dtype=np.float64), Axis(name, levels=levels)
