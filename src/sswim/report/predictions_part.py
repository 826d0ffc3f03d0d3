"""The part of a report about predictions: against targets, and as functions of few columns."""

from __future__ import annotations

import numpy as np

from sswim.estimator.row_scores import COVERAGE
from sswim.plotting.charts import Axis, Band, Chart, Heat, Line, Points, Spans
from sswim.plotting.html_page import Section
from sswim.plotting.page_layout import Grid, Part
from sswim.report.content import Content
from sswim.report.curves import column_grid, predict_frame
from sswim.rows.row_sample import smallest_keys

_FEW_ROWS = 150
"""Number of rows up to which intervals are drawn for each."""

_SHOWN_INTERVALS = 60
"""Number of rows whose intervals are drawn side by side."""

_CELLS = 48
"""Number of cells along each side of a map."""

_SHARE = f"{100 * COVERAGE:.0f} %"


def predictions_part(content: Content) -> Part:
    """Return targets against predictions, and the predicted function where it can be drawn."""
    numeric = [column for column in content.rows.columns if column.kind == "number"]
    charts: list[Section] = [_observed_chart(content)]
    n_columns = len(content.rows.columns)
    if n_columns == len(numeric) == 1:
        charts.append(_curve_chart(content))
    elif n_columns == len(numeric) == 2:
        charts += _maps(content)
    else:
        charts.append(_interval_chart(content))
    lead = (
        "Drag over a chart to zoom in, double-click to zoom out. A name in a legend hides what it "
        "names."
    )
    return Part("predictions", "Predictions", (Grid(tuple(charts), small=len(charts) > 2),), lead)


def _observed_chart(content: Content) -> Chart:
    scores, drawn, target = content.scores, content.drawn, content.rows.target
    ends = np.array([scores.mean.min(), scores.mean.max()])
    points = Points(
        "mean", "target", "rows", numbers="row", more={"lower": "lower", "upper": "upper"}
    )
    layers = (Line(ends, ends, "exact", 0, "dash"), points)
    if len(drawn) <= _FEW_ROWS:
        layers = (Spans("mean", "lower", "upper", f"{_SHARE} interval", 6), *layers)
    caption = f"Points on the dashed line are predicted exactly.{_drawn_rows(content)}"
    return Chart(
        "Observed and predicted",
        Axis(f"predicted mean of {target}"),
        Axis(f"observed {target}"),
        layers,
        caption,
        ratio=0.9 if len(content.rows.columns) == 2 else 0.6,
    )


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


def _maps(content: Content) -> list[Section]:
    """Return the mean and its uncertainty over the rectangle of the rows."""
    first, second = content.rows.columns
    sides = [column_grid(column.numbers, _CELLS + 1) for column in (first, second)]
    middles = [0.5 * (side[1:] + side[:-1]) for side in sides]
    across, up = (each.ravel() for each in np.meshgrid(*middles))
    inputs = predict_frame(content.rows, [across, up])
    mean, deviation = content.regressor.predict(inputs, return_std=True, include_noise=False)
    found = {"predicted mean": mean, "standard deviation of the mean": deviation}
    bounds = [(float(side[0]), float(side[-1])) for side in sides]
    points = content.points("c0", "c1", colour=0)
    return [
        Chart(
            name.capitalize(),
            first.axis,
            second.axis,
            (
                Heat(
                    *bounds,
                    values.reshape(-1),
                    _CELLS,
                    _CELLS,
                    float(values.min()),
                    float(values.max()),
                    name,
                ),
                *((points,) if name != "predicted mean" else ()),
            ),
            ratio=0.9,
        )
        for name, values in found.items()
    ]


def _drawn_rows(content: Content) -> str:
    if len(content.drawn) == len(content.rows):
        return ""
    return (
        f" {len(content.drawn):,} of {len(content.rows):,} rows are drawn, here and below: a "
        "random sample, and those that surprise most."
    )
