"""The parts of a report about how good predictions are.

Scores, calibration of densities, residuals, and the rows that surprise the model most.
"""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
from jaxtyping import Float64
from scipy import stats

from sswim.estimator.evaluation import COVERAGE, ScoreIntervals, share_interval
from sswim.report.charts import Axis, Layer, chart, layer
from sswim.report.content import Content, count, number, percent
from sswim.report.page import Html, Part, card, choice, details, findings, grid, table, tiles

_SURPRISE = 1e-3
"""Probability, in both tails together, below which a target counts as a surprise."""

_DOUBT = 0.01
"""Largest probability by chance at which a deviation is mentioned."""

_FEW_ROWS = 150
"""Number of rows up to which intervals are drawn for each."""

_MEANINGS = {
    "RMSE": "root mean square error of the predicted means, in the units of the target",
    "MAE": "mean absolute error of the predicted means, in the units of the target",
    "R²": "share of the variance of the target that the predicted means explain",
    "MNLP": "mean negative log probability of the targets, in nats; lower is better",
    "CRPS": "continuous ranked probability score, in the units of the target; lower is better",
    "Within 90 %": "share of the targets in their central intervals of that probability",
}

_LEVELS = np.linspace(0.05, 0.95, 19)
"""Coverages of the intervals whose calibration is shown."""

_UNIT = np.array([0.0, 1.0])

_N_GROUPS = 10
"""Largest number of groups of rows whose coverage is shown."""

_MAX_BINS = 12
"""Largest number of groups of rows whose mean residuals are drawn."""


def scores_part(content: Content, scores: ScoreIntervals) -> Part:
    """Return tiles of the main scores, findings, observed against predicted, and all scores."""
    named = {
        "RMSE": scores.rmse,
        "MAE": scores.mae,
        "R²": scores.r2,
        "MNLP": scores.mnlp,
        "CRPS": scores.crps,
    }
    main, every = [], []
    for name, score in named.items():
        ends = f"{number(score.lower)} to {number(score.upper)}"
        main.append(("MNLP, nats" if name == "MNLP" else name, number(score.value), ends))
        every.append((name, number(score.value, 4), ends))
    for coverage, share in scores.coverage.items():
        ends = f"{100 * share.lower:.1f} to {100 * share.upper:.1f}\u00a0%"
        every.append((f"within {100 * coverage:.0f} %", percent(share.value), ends))
        if coverage == 0.9:
            main.append(("within 90 % intervals", percent(share.value), ends))
    meanings = findings([f"{name}: {meaning}." for name, meaning in _MEANINGS.items()])
    numbers = card(
        "All scores",
        table(("score", "value", "95 % interval"), every),
        details("What the scores mean", meanings),
        caption=_caption(content),
    )
    sentences = findings(_findings(content, scores))
    sections = [tiles(main), sentences, grid(_observed_chart(content), numbers)]
    return Part("scores", "Scores", sections)


def _findings(content: Content, scores: ScoreIntervals) -> list[str]:
    """Return what stands out, as sentences."""
    rows, target = content.scores, content.rows.target
    sentences = []
    if math.isfinite(scores.r2.value):
        explained = f"The predicted means explain {percent(scores.r2.value)} of the variance"
        if scores.r2.value < 0:
            explained = "The predicted means are worse than the mean of these rows"
        sentences.append(
            f"{explained} of {target}; the typical error is {number(scores.rmse.value)}."
        )
    if content.insight is not None:
        first = [column.name for column in content.insight.importance if column.rmse.mean > 0][:3]
        if first:
            listed = " and ".join(filter(None, (", ".join(first[:-1]), first[-1])))
            sentences.append(f"The model draws most on {listed}.")
    coverage, verdict = scores.coverage[0.9], ", as they should."
    if coverage.upper < 0.9:
        verdict = ": they are too narrow."
    elif coverage.lower > 0.9:
        verdict = ": they are wider than they need to be."
    sentences.append(f"90 % intervals hold {percent(coverage.value)} of the targets{verdict}")
    test = stats.kstest(rows.pit, "uniform")
    if test.pvalue < _DOUBT:
        sentences.append(
            "The densities are not quite calibrated: the probability that they give to a range of "
            f"values is off by up to {percent(float(test.statistic))}."
        )
    else:
        known = count(len(rows.pit), "row")
        sentences.append(f"As far as {known} can tell, the densities are calibrated.")
    bias = rows.residual.mean()
    error = rows.residual.std(ddof=1) / math.sqrt(len(rows.pit)) if len(rows.pit) > 1 else math.inf
    if abs(bias) > 3 * error:
        side = "higher" if bias > 0 else "lower"
        sentences.append(f"Targets are {side} than predicted by {number(abs(bias))} on average.")
    tail = 2 * np.minimum(rows.pit, 1 - rows.pit)
    n_surprises, expected = int((tail < _SURPRISE).sum()), _SURPRISE * len(tail)
    if stats.binom.sf(n_surprises - 1, len(tail), _SURPRISE) < _DOUBT:
        sentences.append(
            f"{count(n_surprises, 'row')} of {len(tail):,} had targets that the model gave a "
            f"probability below 0.1 %; by chance it would be about {number(expected, 2)}. They are "
            "in the table of surprising rows."
        )
    return sentences


def _caption(content: Content) -> str:
    rows = content.rows
    which = f"{count(len(rows), 'row')}"
    if len(rows) < rows.n_rows:
        which = (
            f"{len(rows):,} of {count(rows.n_rows, 'row')}, a random sample with seed "
            f"{content.random_state}"
        )
    return (
        f"Scores of {which}. Intervals say how much a score depends on which rows were drawn: "
        "bootstrap percentiles, and exact binomial intervals for coverages; both take rows to be "
        "independent."
    )


def _observed_chart(content: Content) -> Html:
    scores, drawn, target = content.scores, content.drawn, content.rows.target
    ends = np.array([scores.mean.min(), scores.mean.max()])
    bounds = {"lower": "lower", "upper": "upper"}
    layers = [
        layer("line", "exact", 0, x=ends, y=ends, style="dash"),
        layer("points", "rows", x="mean", y="target", numbers="row", more=bounds),
    ]
    if len(drawn) <= _FEW_ROWS:
        intervals = layer("spans", f"{100 * COVERAGE:.0f} % interval", 6, x="mean", **bounds)
        layers = [intervals, *layers]
    caption = "Points on the dashed line are predicted exactly."
    if len(drawn) < len(content.rows):
        caption += (
            f" {len(drawn):,} of {len(content.rows):,} rows are drawn, here and below: a random "
            "sample, and those that surprise most."
        )
    x, y = Axis(f"predicted mean of {target}"), Axis(f"observed {target}")
    return chart("Observed and predicted", x, y, *layers, caption=caption, ratio=0.85)


def calibration_part(content: Content) -> Part:
    """Return the coverage of intervals, the PIT, and coverage by width."""
    lead = (
        "Densities are calibrated if what they give a probability of 90 % happens nine times in "
        "ten. Grey bands are where a calibrated model lies with a probability of 95 %."
    )
    charts = (_coverage_chart(content), _pit_chart(content), _width_chart(content))
    return Part("calibration", "Calibration", [grid(*charts, small=True)], lead)


def _coverage_chart(content: Content) -> Html:
    n = len(content.rows)
    observed = np.array([content.scores.inside(level).mean() for level in _LEVELS])
    low, high = np.asarray(stats.binom.interval(0.95, n, _LEVELS)) / n
    return chart(
        "Coverage of intervals",
        Axis("nominal coverage", domain=(0.0, 1.0)),
        Axis("share of targets within", domain=(0.0, 1.0)),
        layer("band", "95 % by chance", 0, x=_LEVELS, lower=low, upper=high),
        layer("line", "exact", 0, x=_UNIT, y=_UNIT, style="dash", rule=True),
        layer("line", "model", x=_LEVELS, y=observed),
        layer("points", x=_LEVELS, y=observed),
        caption="Below the dashed line intervals are too narrow, above it too wide.",
        square=True,
    )


def _pit_chart(content: Content) -> Html:
    n = len(content.rows)
    bins = int(np.clip(n // 15, 5, 20))
    counts, edges = np.histogram(content.scores.pit, bins, (0, 1))
    low, high = np.asarray(stats.binom.interval(0.95, n, 1 / bins)) * bins / n
    lower, upper = np.full(2, low), np.full(2, high)
    return chart(
        "Probability integral transform",
        Axis("probability of a smaller target", domain=(0.0, 1.0)),
        Axis("density of rows", zero=True),
        layer("boxes", "model", edges=edges, y=counts * bins / n),
        layer("band", "95 % by chance", 0, x=_UNIT, lower=lower, upper=upper),
        layer("line", "exact", 0, x=_UNIT, y=np.ones(2), style="dash"),
        caption="Flat if calibrated. High at both ends: densities too narrow; high in the middle: "
        "too wide; a slope: predictions too low or too high.",
        square=True,
    )


def _width_chart(content: Content) -> Html:
    """Return the coverage of groups of rows with narrow and with wide intervals."""
    scores = content.scores
    width = scores.upper - scores.lower
    n_groups = int(np.clip(len(width) // 10, 1, _N_GROUPS))
    groups = np.array_split(np.argsort(width, kind="stable"), n_groups)
    shares = [share_interval(scores.inside(COVERAGE)[group]) for group in groups]
    x = np.arange(n_groups, dtype=np.float64)
    value, lower, upper = np.array([astuple(share) for share in shares]).T
    widths = tuple(number(float(np.median(width[group])), 2) for group in groups)
    return chart(
        "Where the model is more or less sure",
        Axis("typical width of the 90 % interval", levels=widths),
        Axis("share of targets within", domain=(min(0.6, float(lower.min()) - 0.02), 1.02)),
        layer("level", "exact", 0, at=COVERAGE),
        layer("spans", "95 % interval", 6, x=x, lower=lower, upper=upper),
        layer("points", "model", x=x, y=value, style="marks"),
        caption="Rows in groups of equal size, from the narrowest intervals to the widest. All "
        "groups should hold 90 %.",
        square=True,
    )


def residuals_part(content: Content) -> Part:
    """Return residuals against the predicted mean, and against a column of the reader's choice."""
    lead = (
        "A residual is a target minus its predicted mean. Orange marks are means of groups of rows "
        "± 2 standard errors: where they leave zero, the model misses something."
    )
    residual = content.scores.residual
    predicted = chart(
        "Residuals against predictions",
        Axis(f"predicted mean of {content.rows.target}"),
        Axis("residual"),
        *_residual_layers(content, "mean", group_means(content.scores.mean, residual)),
    )
    charts = []
    for place, column in enumerate(content.columns):
        means = group_means(column.numbers, residual, is_level=column.levels is not None)
        layers = _residual_layers(content, f"c{place}", means)
        title = f"Residuals against {column.name}"
        charts.append((column.name, chart(title, column.axis, Axis("residual"), *layers)))
    by_column = choice("Residuals against", charts)
    return Part("residuals", "Residuals", [grid(predicted, by_column)], lead)


def _residual_layers(content: Content, x: str, means: Float64[np.ndarray, "3 B"]) -> list[Layer]:
    places, mean, error = means
    group, lower, upper = "group means ± 2 se", mean - 2 * error, mean + 2 * error
    return [
        content.points(x, "residual"),
        layer("level", colour=0, at=0.0),
        layer("spans", group, 2, x=places, lower=lower, upper=upper),
        layer("points", group, 2, x=places, y=mean, style="marks"),
    ]


def group_means(
    x: Float64[np.ndarray, " N"], y: Float64[np.ndarray, " N"], *, is_level: bool = False
) -> Float64[np.ndarray, "3 B"]:
    """Return mean x, mean y and the standard error of the latter in groups of rows.

    Rows of one x are a group if it is a level; otherwise groups are bins of about equal counts.
    Rows whose x is missing are left out, and groups of fewer than three rows.
    """
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    groups: np.ndarray = x
    if not is_level:
        n_bins = int(np.clip(len(x) // 10, 1, _MAX_BINS))
        inner = np.unique(np.quantile(x, np.linspace(0, 1, n_bins + 1)[1:-1])) if x.size else x
        groups = np.searchsorted(inner, x, side="left")
    means = []
    for group in np.unique(groups):
        values = y[groups == group]
        if len(values) >= 3:
            error = values.std(ddof=1) / np.sqrt(len(values))
            means.append((x[groups == group].mean(), values.mean(), error))
    return np.array(means, dtype=np.float64).reshape(-1, 3).T


def surprises_part(content: Content) -> Part:
    """Return a table of the rows with the lowest log density, with their values."""
    rows, scores = content.rows, content.scores
    columns = content.columns
    cells = []
    for row in content.surprises.tolist():
        values = (scores.target, scores.mean, scores.lower, scores.upper)
        cells.append(
            (
                str(rows.numbers[row]),
                f"{scores.log_density[row]:.2f}".replace("-", "−"),
                *(number(value[row], 4) for value in values),
                f"{scores.pit[row]:.4f}",
                *(column.text(row) for column in columns),
            )
        )
    heads = ("row", "log density", rows.target, "mean", "lower", "upper", "PIT")
    shown = table((*heads, *(column.name for column in columns)), cells, sortable=True)
    lead = (
        "The rows whose targets had the lowest log density: errors in the data, cases that the "
        "model has not seen, or where it is too sure. Click the head of a column to sort."
    )
    caption = (
        "Rows are counted from 0. Lower and upper are the ends of the 90 % interval; PIT is the "
        "predicted probability of a smaller target."
    )
    if len(columns) < len(rows.columns):
        caption += f" The {len(columns)} most important of {len(rows.columns)} columns are shown."
    return Part("surprises", "Surprising rows", [card("", shown, caption=caption)], lead)
