"""The part of a report about predictions: as functions of few columns, or of single rows."""

from __future__ import annotations

import numpy as np

from sswim.estimator.row_scores import COVERAGE
from sswim.plotting.charts import Axis, Band, Chart, Heat, Layer, Line, Points, Spans
from sswim.plotting.html_page import Section
from sswim.plotting.page_layout import Grid, Part
from sswim.report.content import Content
from sswim.report.curves import column_grid, predict_frame
from sswim.rows.row_sample import smallest_keys

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
    chosen = smallest_keys(np.arange(len(scores.mean)), _SHOWN_INTERVALS, content.random_state)
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
    mixture = content.regressor.predict_distribution(predict_frame(content.rows, [x]))
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
    middles = [0.5 * (side[1:] + side[:-1]) for side in sides]
    across, up = (each.ravel() for each in np.meshgrid(*middles))
    inputs = predict_frame(content.rows, [across, up])
    mean, deviation = content.regressor.predict(inputs, return_std=True, include_noise=False)
    found = {"predicted mean": mean, "standard deviation of the mean": deviation}
    charts = []
    for name, values in found.items():
        low, high = np.quantile(values, _COLOUR_ENDS).tolist()
        across_ends, up_ends = ((float(side[0]), float(side[-1])) for side in sides)
        cells = values.reshape(-1)
        heat = Heat(across_ends, up_ends, cells, _CELLS, _CELLS, low, high, name)
        layers: tuple[Layer, ...] = (heat,)
        if name != "predicted mean":
            layers = (*layers, content.points("c0", "c1", colour=0))
        charts.append(Chart(name.capitalize(), first.axis, second.axis, layers, ratio=0.75))
    return tuple(charts)
