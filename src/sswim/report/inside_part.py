"""The part of a report about the inside of a model: members, weights, training and maps."""

from __future__ import annotations

import numpy as np

from sswim.estimator.regressor import SSWIMRegressor
from sswim.plotting.charts import Axis, Chart, Line
from sswim.plotting.html_page import Section, Table, Text
from sswim.plotting.page_layout import Bar, Bars, Card, Grid, Part
from sswim.recipe.fitted_kind import FittedKind
from sswim.report.content import Content
from sswim.report.curves import column_grid
from sswim.report.members import member_kinds
from sswim.report.numbers import percent

_STEPS = 120
"""Largest number of steps of a member that are drawn."""


def inside_part(content: Content) -> Part:
    """Return the kinds with their weights, training histories and output maps."""
    regressor = content.regressor
    kinds = sorted(regressor.recipe_, key=lambda kind: -kind.weight)
    bars = Bars(tuple(Bar(kind.name, kind.weight, percent(kind.weight)) for kind in kinds))
    charts: list[Section] = [
        Card("Weights of the kinds of members", (bars,), _weights_caption(regressor)),
        _history_chart(regressor),
    ]
    if regressor.warps_targets_:
        charts.append(_output_chart(content))
    table = Card("Kinds of members", (_kinds_table(kinds),))
    lead = (
        "The model is a mixture of members of a few kinds; each kind has the weight that it earned "
        "on rows that its members had left out."
    )
    if len(regressor.recipe_) == 1:
        lead = "The model has members of one kind."
    return Part("inside", "Inside the model", (Grid(tuple(charts), small=True), table), lead)


def _weights_caption(regressor: SSWIMRegressor) -> str:
    left_out = [kind.name for kind in regressor.recipe_ if not kind.weight]
    return f"Left out after weighing: {', '.join(left_out)}." if left_out else ""


def _kinds_table(kinds: list[FittedKind]) -> Table:
    heads = (
        "kind",
        "weight",
        "members",
        "warps",
        "kernel",
        "inputs",
        "output map",
        "from",
        "steps",
    )
    return Table(heads, tuple(_kind_row(kind) for kind in kinds))


def _kind_row(kind: FittedKind) -> tuple[str, ...]:
    if kind.name == "mean":
        return (kind.name, f"{kind.weight:.3f}", str(kind.n_members), *[""] * 4, "all rows", "0")
    source = f"{kind.n_features} features"
    if kind.n_neighbors:
        source = f"{kind.n_neighbors} neighbours"
    return (
        kind.name,
        f"{kind.weight:.3f}",
        str(kind.n_members),
        str(kind.depth),
        kind.kernel,
        kind.inputs,
        kind.output_warp,
        source,
        str(kind.n_steps),
    )


def _history_chart(regressor: SSWIMRegressor) -> Section:
    lines, curves = [], []
    for kind, values in zip(member_kinds(regressor), regressor.history_, strict=True):
        if len(values) < 2:
            continue  # the mean of all rows is not trained
        steps = np.unique(np.linspace(0, len(values) - 1, _STEPS).round().astype(int))
        curves.append(values[steps])
        lines.append(Line(steps, curves[-1], kind.name, kind.colour, "thin"))
    if not lines:
        return Text("Nothing in this model was trained by steps.")
    axis = Axis("objective, nats per row", domain=_middle(curves))
    caption = "One line for each member. Objectives of different kinds cannot be compared."
    return Chart("Training", Axis("step"), axis, tuple(lines), caption, ratio=0.75)


def _middle(curves: list[np.ndarray]) -> tuple[float, float]:
    """Return a range that shows where curves end, though first steps may be far above."""
    starts = max(float(np.quantile(curve, 0.95)) for curve in curves)
    least = min(float(curve.min()) for curve in curves)
    room = 0.06 * (starts - least) or 1.0
    return least - room, starts + room


def _output_chart(content: Content) -> Chart:
    """Return the output maps of the members over the range of the targets."""
    regressor, target = content.regressor, content.rows.target
    y = column_grid(content.scores.target, 120)
    lines = []
    for place, kind in enumerate(member_kinds(regressor)):
        z = regressor.warp_targets(y, member=place).reshape(-1)
        lines.append(Line(y, z, kind.name, kind.colour, "thin"))
    scaling = regressor.scaling_
    plain = (y - scaling.target_mean.item()) / scaling.target_spread.item()
    lines.append(Line(y, plain, "no map", 0, "dash"))
    caption = "Members predict the mapped target, whose noise is closer to Gaussian."
    axis = Axis(f"{target}, standardised and mapped")
    return Chart("Output map", Axis(target), axis, tuple(lines), caption, ratio=0.75)
