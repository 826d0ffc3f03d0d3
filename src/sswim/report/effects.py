"""The parts of a report about the predicted function: as it is, and what each column does to it."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Shaped

from sswim.estimator.evaluation import COVERAGE
from sswim.insight.effect import Effect
from sswim.insight.relevance import Relevance
from sswim.report.charts import Axis, Band, Chart, Heat, Layer, Line, Points, Rug, Spans
from sswim.report.content import Content, Insight, column_grid, number, percent
from sswim.report.page import Bar, Bars, Card, Grid, Heading, Part, Section, Text
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
    n_columns = len(content.rows.columns)
    charts: tuple[Section, ...]
    if n_columns == len(numeric) == 1:
        charts = (_curve_chart(content),)
    elif n_columns == len(numeric) == 2:
        charts = _maps(content)
    else:
        charts = (_interval_chart(content),)
    return Part("predictions", "Predictions", (Grid(charts),))


def _interval_chart(content: Content) -> Chart:
    """Return the intervals of some rows, in the order of their predictions."""
    scores = content.scores
    chosen = content.sample(_SHOWN_INTERVALS)
    chosen = chosen[np.argsort(scores.mean[chosen], kind="stable")]
    places = np.arange(len(chosen), dtype=np.float64)
    inside = scores.inside(COVERAGE)[chosen] > 0
    numbers, target = content.rows.numbers[chosen], scores.target[chosen]
    layers = (
        Spans(places, scores.lower[chosen], scores.upper[chosen], f"{_SHARE} interval", 6),
        Line(places, scores.mean[chosen], "mean", 1, "thin"),
        Points(places[inside], target[inside], "within", 0, numbers=numbers[inside]),
        Points(places[~inside], target[~inside], "outside", 2, numbers=numbers[~inside]),
    )
    caption = f"{len(chosen)} rows at random, in the order of their predicted means."
    return Chart(
        "Intervals of single rows",
        Axis("rank of the predicted mean"),
        Axis(content.rows.target),
        layers,
        caption,
    )


def _curve_chart(content: Content) -> Chart:
    [column] = content.rows.columns
    x = column_grid(column.numbers, 300)
    mixture = content.regressor.predict_distribution(content.on_grid([x]))
    tails = [0.5 * (1 - COVERAGE), 0.5, 0.5 * (1 + COVERAGE)]
    low, middle, high = mixture.quantiles(tails)[:, 0].cpu().numpy().T
    function = mixture.without_noise().quantiles([tails[0], tails[2]])[:, 0].cpu().numpy().T
    layers = (
        Band(x, low, high, f"{_SHARE}, new observation", 1),
        Band(x, function[0], function[1], f"{_SHARE}, function", 1, "strong"),
        Line(x, middle, "median", 1),
        content.points("c0", "target", colour=0),
    )
    return Chart("Predicted function", column.axis, Axis(content.rows.target), layers)


def _maps(content: Content) -> tuple[Section, ...]:
    """Return the mean and its uncertainty over the rectangle of the rows."""
    first, second = content.rows.columns
    sides = [column_grid(column.numbers, _CELLS + 1) for column in (first, second)]
    x, y = np.meshgrid(*(0.5 * (side[1:] + side[:-1]) for side in sides))
    mean, deviation = content.regressor.predict(
        content.on_grid([x.ravel(), y.ravel()]), return_std=True, include_noise=False
    )
    x_ends, y_ends = ((float(side[0]), float(side[-1])) for side in sides)

    def chart(name: str, values: np.ndarray, *layers: Layer) -> Chart:
        low, high = np.quantile(values, _COLOUR_ENDS).tolist()
        heat = Heat(x_ends, y_ends, values.reshape(-1), _CELLS, _CELLS, low, high, name)
        return Chart(name.capitalize(), first.axis, second.axis, (heat, *layers), ratio=0.75)

    return (
        chart("predicted mean", mean),
        chart("standard deviation of the mean", deviation, content.points("c0", "c1", colour=0)),
    )


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
        values.reshape(len(x)) for values in (effect.mean, effect.lower, effect.upper)
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
