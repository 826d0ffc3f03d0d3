"""The parts of a report about the model itself: warps, noise, members, training and settings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sswim.base.version import __version__
from sswim.ensemble.plan import FittedKind
from sswim.estimator.base import BaseRegressor
from sswim.report.charts import Axis, Layer, chart, layer
from sswim.report.content import MAX_VALUES, Content, column_grid, count, percent
from sswim.report.page import Bar, Html, Part, bars, card, choice, details, grid, paragraph, table

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
    lead = (
        "A warp moves the inputs before a stationary model sees them: it stretches a region where "
        "the function changes fast. The noise may be stronger in some regions than in others."
    )
    charts = grid(_warp_choice(content), _noise_choice(content))
    return Part("warps", "Warps and noise", [charts], lead)


def _warp_choice(content: Content) -> Html:
    regressor = content.regressor
    member = regressor._fitted.shown_member
    architecture = regressor.members_[member].model.architecture
    if not architecture.depth:
        return paragraph("No member of this model has a warp.")
    if architecture.warp_matrix != "diagonal":
        return paragraph(
            "The first warp of this model mixes all inputs into new coordinates, so no chart of a "
            "single column can show it."
        )
    kind, _ = _member_kinds(regressor)[member]
    caption = f"Member {member + 1} of {len(regressor.members_)}, of the kind {kind}."
    # The columns that are inputs as they are, and the places of these inputs.
    schema, columns = regressor._reader.schema, list(content.columns)
    names = [column.name for column in content.rows.columns]
    if schema is not None:
        names = list(schema.feature_names)
        columns = [item for item in columns if item.kind == "number" and item.name in names]
    if not columns:
        return paragraph("Warps are drawn for columns of numbers, and this model has none.")
    if len(content.rows.columns) == 1:
        return _warp_curve(content, caption)
    limit = max(100, min(_MAX_ROWS, MAX_VALUES // (2 * len(columns))))
    chosen = content.sample(limit)
    rows = content.rows.inputs.map(lambda tensor: tensor[chosen])
    mean, _ = regressor.warp(rows)[-1]
    charts = []
    for column in columns:
        x, warped = column.numbers[chosen], mean[:, names.index(column.name)]
        known = x[np.isfinite(x)]
        ends = np.array([known.min(), known.max()]) if known.size else np.zeros(2)
        shown = chart(
            f"Warp of {column.name}",
            column.axis,
            Axis(f"{column.name}, warped"),
            layer("line", "no warp", 0, x=ends, y=ends, style="dash"),
            layer("points", "rows, after the last warp", x=x, y=warped),
            caption=caption,
        )
        charts.append((column.name, shown))
    return choice("Warp of", charts)


def _warp_curve(content: Content, caption: str) -> Html:
    [column] = content.rows.columns
    x = column_grid(column.numbers, 200)
    layers: list[Layer] = []
    for number, (mean, variance) in enumerate(content.regressor.warp(content.on_grid([x]))):
        name, reach = f"after warp {number + 1}, ± 2 std", 2 * np.sqrt(variance[:, 0])
        colour, y = 1 + number % 6, mean[:, 0]
        layers += [
            layer("band", name, colour, x=x, lower=y - reach, upper=y + reach),
            layer("line", name, colour, x=x, y=y),
        ]
    layers.append(layer("line", "no warp", 0, x=x, y=x, style="dash"))
    axis = Axis(f"{column.name}, warped")
    return chart(f"Warp of {column.name}", column.axis, axis, *layers, caption=caption)


def _noise_choice(content: Content) -> Html:
    """Return the standard deviation of the noise against the mean and against each column."""
    shown = [("the predicted mean", Axis(f"predicted mean of {content.rows.target}"), "mean")]
    shown += [
        (column.name, column.axis, f"c{place}") for place, column in enumerate(content.columns)
    ]
    noise = Axis("noise, standard deviation", zero=True)
    charts = []
    for name, axis, x in shown:
        points = content.points(x, "noise", colour=3)
        charts.append((name, chart(f"Noise against {name}", axis, noise, points)))
    return choice("Noise against", charts)


def inside_part(content: Content) -> Part:
    """Return the kinds with their weights, training histories and output maps."""
    regressor = content.regressor
    kinds = sorted(regressor.kinds_, key=lambda kind: -kind.weight)
    weights = bars([Bar(kind.name, kind.weight, percent(kind.weight)) for kind in kinds])
    left_out = [kind.name for kind in regressor.kinds_ if not kind.weight]
    caption = f"Left out after weighing: {', '.join(left_out)}." if left_out else ""
    charts = [
        card("Weights of the kinds of members", weights, caption=caption),
        _history_chart(regressor),
    ]
    if regressor._fitted.warps_targets:
        charts.append(_output_chart(content))
    rows = table(_KIND_HEADS, [_kind_row(kind) for kind in kinds])
    lead = (
        "The model is a mixture of members of a few kinds; each kind has the weight that it earned "
        "on rows that its members had left out."
    )
    if len(kinds) == 1:
        lead = "The model has members of one kind."
    sections = [grid(*charts, small=True), card("Kinds of members", rows)]
    return Part("inside", "Inside the model", sections, lead)


def _kind_row(kind: FittedKind) -> tuple[str, ...]:
    source = f"{kind.n_features} features"
    if kind.n_neighbors:
        source = f"{kind.n_neighbors} neighbours"
    model = (str(kind.depth), kind.kernel, kind.inputs, kind.output_warp, source, str(kind.n_steps))
    if kind.name == "mean":
        model = ("", "", "", "", "all rows", "0")
    return kind.name, f"{kind.weight:.3f}", str(kind.n_members), *model


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


def _history_chart(regressor: BaseRegressor) -> Html:
    lines, curves = [], []
    for (kind, colour), values in zip(_member_kinds(regressor), regressor.history_, strict=True):
        if len(values) < 2:
            continue  # the mean of all rows is not trained
        steps = np.unique(np.linspace(0, len(values) - 1, _STEPS).round().astype(int))
        curves.append(values[steps])
        lines.append(layer("line", kind, colour, x=steps, y=curves[-1], style="thin"))
    if not lines:
        return paragraph("Nothing in this model was trained by steps.")
    axis = Axis("objective, nats per row", domain=_middle(curves))
    caption = "One line for each member. Objectives of different kinds cannot be compared."
    return chart("Training", Axis("step"), axis, *lines, caption=caption, ratio=0.75)


def _middle(curves: list[np.ndarray]) -> tuple[float, float]:
    """Return a range that shows where curves end, though first steps may be far above."""
    starts = max(float(np.quantile(curve, 0.95)) for curve in curves)
    least = min(float(curve.min()) for curve in curves)
    room = 0.06 * (starts - least) or 1.0
    return least - room, starts + room


def _output_chart(content: Content) -> Html:
    """Return the output maps of the members over the range of the targets."""
    regressor, target = content.regressor, content.rows.target
    y = column_grid(content.scores.target, 120)
    lines = []
    for member, (kind, colour) in enumerate(_member_kinds(regressor)):
        z = regressor.warp_targets(y, member=member).reshape(-1)
        lines.append(layer("line", kind, colour, x=y, y=z, style="thin"))
    scaling = regressor.scaling_
    plain = (y - scaling.target_mean.item()) / scaling.target_spread.item()
    lines.append(layer("line", "no map", 0, x=y, y=plain, style="dash"))
    caption = "Members predict the mapped target, whose noise is closer to Gaussian."
    axis = Axis(f"{target}, standardised and mapped")
    return chart("Output map", Axis(target), axis, *lines, caption=caption, ratio=0.75)


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
    known = {
        **facts,
        "target": rows.target,
        "rows of this report": used,
        "rows of the fit": f"{regressor.n_samples_seen_:,.10g}",
        "rows inside the model": "yes" if regressor.keeps_rows_ else "no",
        "members": str(len(regressor.members_)),
        "training steps": str(regressor.n_iter_),
        "settings": _settings(regressor),
        "sswim": __version__,
    }
    columns = table(("column", "kind"), [(column.name, column.kind) for column in rows.columns])
    if len(rows.columns) > _FEW:
        columns = details(f"All {len(rows.columns)} columns", columns)
    model = card("Model and rows", table(("", ""), list(known.items())))
    return Part("about", "About this report", [grid(model, card("Columns", columns))])


def _settings(regressor: BaseRegressor) -> str:
    """Return the settings that are not those of a new estimator."""
    usual = type(regressor)().get_params()
    changed = [
        f"{name}={value!r}"
        for name, value in regressor.get_params().items()
        if name not in ("callback", "verbose") and repr(value) != repr(usual[name])
    ]
    return ", ".join(changed) or "all by default"
