"""The part of a report about residuals: against predictions and against each column."""

from __future__ import annotations

import numpy as np

from sswim.plotting.charts import Axis, Chart, Layer, Level, Points, Spans
from sswim.plotting.page_layout import Choice, Grid, Part
from sswim.report.columns import ReportColumn
from sswim.report.content import Content, bin_means, level_means


def residuals_part(content: Content) -> Part:
    """Return residuals against the predicted mean, and against a column of the reader's choice."""
    lead = (
        "A residual is a target minus its predicted mean. Orange marks are means of groups of rows "
        "± 2 standard errors: where they leave zero, the model misses something."
    )
    scores = content.scores
    predicted = Chart(
        "Residuals against predictions",
        Axis(f"predicted mean of {content.rows.target}"),
        Axis("residual"),
        _layers(content, "mean", bin_means(scores.mean, scores.residual)),
    )
    columns = content.columns
    by_column = Choice(
        "Residuals against",
        tuple(column.name for column in columns),
        tuple(_column_chart(content, place, column) for place, column in enumerate(columns)),
    )
    return Part("residuals", "Residuals", (Grid((predicted, by_column)),), lead)


def _column_chart(content: Content, place: int, column: ReportColumn) -> Chart:
    residual = content.scores.residual
    if column.levels is None:
        means = bin_means(column.numbers, residual)
    else:
        means = level_means(column.numbers, residual)
    layers = _layers(content, f"c{place}", means)
    return Chart(f"Residuals against {column.name}", column.axis, Axis("residual"), layers)


def _layers(
    content: Content, x: str, means: tuple[np.ndarray, np.ndarray, np.ndarray]
) -> tuple[Layer, ...]:
    places, mean, error = means
    group = "group means ± 2 se"
    return (
        content.points(x, "residual"),
        Level(0.0),
        Spans(places, mean - 2 * error, mean + 2 * error, group, 2),
        Points(places, mean, group, 2, "marks"),
    )
