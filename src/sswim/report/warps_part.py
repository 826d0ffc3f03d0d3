"""The part of a report about input warps and noise, by column."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from sswim.plotting.charts import Axis, Band, Chart, Layer, Line, Points
from sswim.plotting.html_page import Section, Text
from sswim.plotting.page_layout import Choice, Grid, Part
from sswim.report.columns import ReportColumn
from sswim.report.content import MAX_VALUES, Content
from sswim.report.curves import column_grid, predict_frame
from sswim.report.members import member_kinds
from sswim.rows.row_sample import smallest_keys

_MAX_ROWS = 500
"""Largest number of rows whose warped inputs are drawn."""


def warps_part(content: Content) -> Part:
    """Return the warped inputs of the member that ``shown_member_`` names, and the noise."""
    sections = (Grid((_warp_choice(content), _noise_choice(content))),)
    lead = (
        "A warp moves the inputs before a stationary model sees them: it stretches a region where "
        "the function changes fast. The noise may be stronger in some regions than in others."
    )
    return Part("warps", "Warps and noise", sections, lead)


def _warp_choice(content: Content) -> Section:
    regressor = content.regressor
    member = regressor.shown_member_
    architecture = regressor.members_[member].model.architecture
    if not architecture.depth:
        return Text("No member of this model has a warp.")
    if architecture.warp_matrix != "diagonal":
        return Text(
            "The first warp of this model mixes all inputs into new coordinates, so no chart of a "
            "single column can show it."
        )
    inputs = _input_places(content)
    kind = member_kinds(regressor)[member].name
    caption = f"Member {member + 1} of {len(regressor.members_)}, of the kind {kind}."
    if len(content.rows.columns) == 1 and inputs:
        return _warp_curve(content, caption)
    limit = max(100, min(_MAX_ROWS, MAX_VALUES // (2 * max(1, len(inputs)))))
    chosen = smallest_keys(np.arange(len(content.rows)), limit, content.random_state)
    rows = content.rows.inputs
    rows = rows[chosen] if isinstance(rows, np.ndarray) else rows.take(chosen)
    mean, _ = regressor.warp(rows)[-1]
    charts = tuple(
        _warp_points(column, chosen, mean[:, place], caption) for place, column in inputs.items()
    )
    if not charts:
        return Text("Warps are drawn for columns of numbers, and this model has none.")
    return Choice("Warp of", tuple(column.name for column in inputs.values()), charts)


def _input_places(content: Content) -> dict[int, ReportColumn]:
    """Return the drawn columns that are inputs as they are, by the places of these inputs."""
    regressor = content.regressor
    schema = regressor._reader.schema
    if schema is None:
        return dict(enumerate(content.columns))
    places = {name: place for place, name in enumerate(schema.feature_names)}
    return {
        places[column.name]: column
        for column in content.columns
        if column.kind == "number" and column.name in places
    }


def _warp_curve(content: Content, caption: str) -> Chart:
    [column] = content.rows.columns
    x = column_grid(column.numbers, 200)
    layers: list[Layer] = []
    for layer, (mean, variance) in enumerate(
        content.regressor.warp(predict_frame(content.rows, [x]))
    ):
        name, reach = f"after warp {layer + 1}, ± 2 std", 2 * np.sqrt(variance[:, 0])
        colour = 1 + layer % 6
        layers += [
            Band(x, mean[:, 0] - reach, mean[:, 0] + reach, name, colour),
            Line(x, mean[:, 0], name, colour),
        ]
    layers.append(Line(x, x, "no warp", 0, "dash"))
    axis = Axis(f"{column.name}, warped")
    return Chart(f"Warp of {column.name}", column.axis, axis, tuple(layers), caption)


def _warp_points(
    column: ReportColumn,
    chosen: np.ndarray,
    warped: Float64[np.ndarray, " n"],
    caption: str,
) -> Chart:
    x = column.numbers[chosen]
    known = x[np.isfinite(x)]
    ends = np.array([known.min(), known.max()]) if known.size else np.zeros(2)
    layers = (
        Line(ends, ends, "no warp", 0, "dash"),
        Points(x, warped, "rows, after the last warp", 1),
    )
    axis = Axis(f"{column.name}, warped")
    return Chart(f"Warp of {column.name}", column.axis, axis, layers, caption)


def _noise_choice(content: Content) -> Section:
    """Return the standard deviation of the noise against the mean and against each column."""
    label = "noise, standard deviation"
    mean = Chart(
        "Noise against the predicted mean",
        Axis(f"predicted mean of {content.rows.target}"),
        Axis(label, zero=True),
        (content.points("mean", "noise", colour=3),),
    )
    charts = [mean]
    for place, column in enumerate(content.columns):
        points = content.points(f"c{place}", "noise", colour=3)
        title = f"Noise against {column.name}"
        charts.append(Chart(title, column.axis, Axis(label, zero=True), (points,)))
    names = ("the predicted mean", *(column.name for column in content.columns))
    return Choice("Noise against", names, tuple(charts))
