"""The parts of a report about the model itself: warps, noise, members, training and settings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64, Int64

from sswim.base.version import __version__
from sswim.ensemble.plan import FittedKind
from sswim.estimator.base import BaseRegressor
from sswim.report.charts import Axis, Band, Chart, Layer, Line, Points
from sswim.report.content import MAX_VALUES, Content, column_grid, count, percent
from sswim.report.page import Bar, Bars, Card, Choice, Details, Grid, Part, Section, Table, Text
from sswim.report.rows import ReportColumn

_MAX_ROWS = 500
"""Largest number of rows whose warped inputs are drawn."""

_STEPS = 120
"""Largest number of steps of a member that are drawn."""

_FEW = 12
"""Number of columns up to which all are listed at once."""

_KIND_HEADS = (
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
    member = regressor._fitted.shown_member
    architecture = regressor.members_[member].model.architecture
    if not architecture.depth:
        return Text("No member of this model has a warp.")
    if architecture.warp_matrix != "diagonal":
        return Text(
            "The first warp of this model mixes all inputs into new coordinates, so no chart of a "
            "single column can show it."
        )
    inputs = _input_places(content)
    kind, _ = _member_kinds(regressor)[member]
    caption = f"Member {member + 1} of {len(regressor.members_)}, of the kind {kind}."
    if len(content.rows.columns) == 1 and inputs:
        return _warp_curve(content, caption)
    limit = max(100, min(_MAX_ROWS, MAX_VALUES // (2 * max(1, len(inputs)))))
    chosen = content.sample(limit)
    rows = content.rows.inputs.map(lambda tensor: tensor[chosen])
    mean, _ = regressor.warp(rows)[-1]
    charts = tuple(
        (column.name, _warp_points(column, chosen, mean[:, place], caption))
        for place, column in inputs.items()
    )
    if not charts:
        return Text("Warps are drawn for columns of numbers, and this model has none.")
    return Choice("Warp of", charts)


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
    for layer, (mean, variance) in enumerate(content.regressor.warp(content.on_grid([x]))):
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
    chosen: Int64[np.ndarray, " n"],
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
    mean = "the predicted mean"
    shown = [(mean, Axis(f"predicted mean of {content.rows.target}"), "mean")]
    shown += [
        (column.name, column.axis, f"c{place}") for place, column in enumerate(content.columns)
    ]
    noise = Axis("noise, standard deviation", zero=True)
    charts = (
        (name, Chart(f"Noise against {name}", axis, noise, (content.points(x, "noise", colour=3),)))
        for name, axis, x in shown
    )
    return Choice("Noise against", tuple(charts))


def inside_part(content: Content) -> Part:
    """Return the kinds with their weights, training histories and output maps."""
    regressor = content.regressor
    kinds = sorted(regressor.kinds_, key=lambda kind: -kind.weight)
    bars = Bars(tuple(Bar(kind.name, kind.weight, percent(kind.weight)) for kind in kinds))
    left_out = [kind.name for kind in regressor.kinds_ if not kind.weight]
    caption = f"Left out after weighing: {', '.join(left_out)}." if left_out else ""
    charts: list[Section] = [
        Card("Weights of the kinds of members", (bars,), caption),
        _history_chart(regressor),
    ]
    if regressor._fitted.warps_targets:
        charts.append(_output_chart(content))
    table = Card(
        "Kinds of members", (Table(_KIND_HEADS, tuple(_kind_row(kind) for kind in kinds)),)
    )
    lead = (
        "The model is a mixture of members of a few kinds; each kind has the weight that it earned "
        "on rows that its members had left out."
    )
    if len(regressor.kinds_) == 1:
        lead = "The model has members of one kind."
    return Part("inside", "Inside the model", (Grid(tuple(charts), small=True), table), lead)


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


def _member_kinds(regressor: BaseRegressor) -> list[tuple[str, int]]:
    """Return the kind of each member with its colour in charts, in the order of ``members_``.

    Members stand in the order of their kinds; kinds of no weight have none.
    """
    kept = [kind for kind in regressor.kinds_ if kind.weight > 0]
    kinds = [
        (kind.name, 1 + place % 6) for place, kind in enumerate(kept) for _ in range(kind.n_members)
    ]
    n_members = len(regressor.members_)
    return kinds if len(kinds) == n_members else [("member", 1)] * n_members


def _history_chart(regressor: BaseRegressor) -> Section:
    lines, curves = [], []
    for (kind, colour), values in zip(_member_kinds(regressor), regressor.history_, strict=True):
        if len(values) < 2:
            continue  # the mean of all rows is not trained
        steps = np.unique(np.linspace(0, len(values) - 1, _STEPS).round().astype(int))
        curves.append(values[steps])
        lines.append(Line(steps, curves[-1], kind, colour, "thin"))
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
    for member, (kind, colour) in enumerate(_member_kinds(regressor)):
        z = regressor.warp_targets(y, member=member).reshape(-1)
        lines.append(Line(y, z, kind, colour, "thin"))
    scaling = regressor.scaling_
    plain = (y - scaling.target_mean.item()) / scaling.target_spread.item()
    lines.append(Line(y, plain, "no map", 0, "dash"))
    caption = "Members predict the mapped target, whose noise is closer to Gaussian."
    axis = Axis(f"{target}, standardised and mapped")
    return Chart("Output map", Axis(target), axis, tuple(lines), caption, ratio=0.75)


def about_part(content: Content, facts: Mapping[str, str]) -> Part:
    """Return the facts about model and rows, and the columns of the model.

    Args:
        content: The model and its rows.
        facts: What the caller knows besides, such as names of files.
    """
    regressor, rows = content.regressor, content.rows
    used = count(len(rows), "row")
    if len(rows) < rows.n_rows:
        used = f"{len(rows):,} of {count(rows.n_rows, 'row')}, seed {content.random_state}"
    every = {
        **facts,
        "target": rows.target,
        "rows of this report": used,
        "rows of the fit": f"{regressor.n_samples_seen_:,.10g}",
        "rows inside the model": "yes" if regressor.keeps_rows_ else "no",
        "members": str(len(regressor.members_)),
        "training steps": str(regressor.n_iter_),
        "settings": _settings(content),
        "sswim": __version__,
    }
    kinds = Table(("column", "kind"), tuple((column.name, column.kind) for column in rows.columns))
    few = len(rows.columns) <= _FEW
    columns = kinds if few else Details(f"All {len(rows.columns)} columns", (kinds,))
    cards = (
        Card("Model and rows", (Table(("", ""), tuple(every.items())),)),
        Card("Columns", (columns,)),
    )
    return Part("about", "About this report", (Grid(cards),))


def _settings(content: Content) -> str:
    """Return the settings that are not those of a new estimator."""
    regressor = content.regressor
    usual = type(regressor)().get_params()
    changed = [
        f"{name}={value!r}"
        for name, value in regressor.get_params().items()
        if name not in ("callback", "verbose") and repr(value) != repr(usual[name])
    ]
    return ", ".join(changed) or "all by default"
