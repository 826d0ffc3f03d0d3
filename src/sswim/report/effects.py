"""The parts of a report about the predicted function: as it is, and what each column does to it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64, Shaped

from sswim.estimator.evaluation import COVERAGE
from sswim.insight.effect import Effect
from sswim.insight.relevance import Relevance
from sswim.report.charts import Axis, Layer, chart, layer
from sswim.report.content import Content, Insight, column_grid, number, percent
from sswim.report.page import Bar, Html, Part, bars, card, grid, heading, paragraph
from sswim.rows.summary import smallest_keys

_MAX_TICKS = 60
"""Largest number of rows that are shown as ticks below an effect."""

_MAX_BARS = 12
"""Largest number of columns in a chart of bars."""

_SHOWN_INTERVALS = 60
"""Number of rows whose intervals are drawn side by side."""

_COLOUR_ENDS = (0.005, 0.995)
"""Quantiles of a map's values that have the first and the last colour; few cells lie beyond."""

_CELLS = 48
"""Number of cells along each side of a map."""

_SHARE = f"{100 * COVERAGE:.0f} %"


def predictions_part(content: Content) -> Part:
    """Return the predicted function of one or two columns of numbers, or intervals of some rows."""
    numeric = [column for column in content.rows.columns if column.kind == "number"]
    draw = _interval_chart
    if len(numeric) == len(content.rows.columns) <= 2:
        draw = _curve_chart if len(numeric) == 1 else _maps
    return Part("predictions", "Predictions", [grid(*draw(content))])


def _interval_chart(content: Content) -> list[Html]:
    """Return the intervals of some rows, in the order of their predictions."""
    scores = content.scores
    chosen = content.sample(_SHOWN_INTERVALS)
    chosen = chosen[np.argsort(scores.mean[chosen], kind="stable")]
    x = np.arange(len(chosen), dtype=np.float64)
    inside = scores.inside(COVERAGE)[chosen] > 0
    numbers, target = content.rows.numbers[chosen], scores.target[chosen]
    lower, upper = scores.lower[chosen], scores.upper[chosen]

    def points(name: str, colour: int, rows: Bool[np.ndarray, " n"]) -> Layer:
        return layer("points", name, colour, x=x[rows], y=target[rows], numbers=numbers[rows])

    shown = chart(
        "Intervals of single rows",
        Axis("rank of the predicted mean"),
        Axis(content.rows.target),
        layer("spans", f"{_SHARE} interval", 6, x=x, lower=lower, upper=upper),
        layer("line", "mean", x=x, y=scores.mean[chosen], style="thin"),
        points("within", 0, inside),
        points("outside", 2, ~inside),
        caption=f"{len(chosen)} rows at random, in the order of their predicted means.",
    )
    return [shown]


def _curve_chart(content: Content) -> list[Html]:
    [column] = content.rows.columns
    x = column_grid(column.numbers, 300)
    mixture = content.regressor.predict_distribution(content.on_grid([x]))
    tails = [0.5 * (1 - COVERAGE), 0.5, 0.5 * (1 + COVERAGE)]
    low, middle, high = mixture.quantiles(tails)[:, 0].cpu().numpy().T
    floor, ceiling = mixture.without_noise().quantiles(tails[::2])[:, 0].cpu().numpy().T
    shown = chart(
        "Predicted function",
        column.axis,
        Axis(content.rows.target),
        layer("band", f"{_SHARE}, new observation", x=x, lower=low, upper=high),
        layer("band", f"{_SHARE}, function", x=x, lower=floor, upper=ceiling, style="strong"),
        layer("line", "median", x=x, y=middle),
        content.points("c0", "target", colour=0),
    )
    return [shown]


def _maps(content: Content) -> list[Html]:
    """Return the mean and its uncertainty over the rectangle of the rows."""
    first, second = content.rows.columns
    sides = [column_grid(column.numbers, _CELLS + 1) for column in (first, second)]
    x, y = np.meshgrid(*(0.5 * (side[1:] + side[:-1]) for side in sides))
    mean, deviation = content.regressor.predict(
        content.on_grid([x.ravel(), y.ravel()]), return_std=True, include_noise=False
    )
    ends = dict(zip("xy", [(float(side[0]), float(side[-1])) for side in sides], strict=True))
    cells = {"columns": _CELLS, "rows": _CELLS}

    def draw(name: str, values: np.ndarray, *layers: Layer) -> Html:
        low, high = np.quantile(values, _COLOUR_ENDS).tolist()
        flat = values.reshape(-1)
        heat = layer("heat", name, None, **ends, values=flat, **cells, low=low, high=high)
        return chart(name.capitalize(), first.axis, second.axis, heat, *layers, ratio=0.75)

    return [
        draw("predicted mean", mean),
        draw("standard deviation of the mean", deviation, content.points("c0", "c1", colour=0)),
    ]


def effects_part(insight: Insight, target: str) -> Part:
    """Return importance and relevance of columns as bars, and the effects of the first ones."""
    lead = "Which columns the model draws on, and what it makes of them."
    sections = [grid(_importance_card(insight), _relevance_card(insight.relevance))]
    if effects := insight.effects:
        low = min(float(effect.lower.min()) for effect in effects)
        high = max(float(effect.upper.max()) for effect in effects)
        room = 0.04 * (high - low) or 1.0
        y = Axis(f"mean of {target}", domain=(low - room, high + room))
        words = (
            f"The predicted mean of {target} if a column had another value, averaged over "
            f"{effects[0].n_rows} rows, with 90 % bands of that average. All charts have the same "
            "scale; ticks at the bottom are rows."
        )
        charts = grid(*(_effect_chart(effect, y) for effect in effects), small=True)
        sections += [heading("Effects"), paragraph(words), charts]
    return Part("effects", "What matters", sections, lead)


def _importance_card(insight: Insight) -> Html:
    rises = [
        Bar(column.name, column.rmse.mean, number(column.rmse.mean, 2), column.rmse.deviation)
        for column in insight.importance[:_MAX_BARS]
    ]
    caption = (
        f"How much the RMSE rises when a column is shuffled among {insight.n_shuffled:,} rows; "
        "lines are ± 1 standard deviation over shuffles."
    )
    return card("Importance", bars(rises), caption=caption + _others(len(insight.importance)))


def _relevance_card(relevance: Relevance) -> Html:
    names, shares = relevance.names, relevance.relevance.tolist()
    shown = [Bar(names[at], shares[at], percent(shares[at])) for at in relevance.order[:_MAX_BARS]]
    caption = (
        "How much of the variance of the predicted function each column makes, as shares: what the "
        "model has learnt, whether or not it was right."
    )
    return card("Relevance", bars(shown), caption=caption + _others(len(names)))


def _others(n_columns: int) -> str:
    return f" The first {_MAX_BARS} of {n_columns} columns." if n_columns > _MAX_BARS else ""


def _effect_chart(effect: Effect, y: Axis) -> Html:
    [name], [values], [rows] = effect.names, effect.grids, effect.rows
    x, axis = _axis(name, values)
    mean, lower, upper = (
        curve.reshape(len(x)) for curve in (effect.mean, effect.lower, effect.upper)
    )
    if axis.levels is None:
        ticks, _ = _axis(name, rows[smallest_keys(np.arange(len(rows)), _MAX_TICKS)])
        layers = [
            layer("band", x=x, lower=lower, upper=upper),
            layer("line", x=x, y=mean),
            layer("rug", colour=0, x=ticks),
        ]
    else:
        layers = [
            layer("spans", x=x, lower=lower, upper=upper),
            layer("points", x=x, y=mean, style="marks"),
        ]
    return chart(name, axis, y, *layers, ratio=0.7)


def _axis(name: str, grid: Shaped[np.ndarray, " n"]) -> tuple[Float64[np.ndarray, " n"], Axis]:
    """Return where values are drawn, and the axis for them: of numbers, times or levels."""
    if grid.dtype.kind == "M":
        seconds = grid.astype("datetime64[us]").astype(np.int64) / 1e6
        return seconds, Axis(name, time=True)
    if grid.dtype.kind in "fiub":
        return grid.astype(np.float64), Axis(name)
    levels = tuple("missing" if level is None else str(level) for level in grid)
    return np.arange(len(levels), dtype=np.float64), Axis(name, levels=levels)
