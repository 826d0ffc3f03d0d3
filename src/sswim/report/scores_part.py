"""The first part of a report: scores, what stands out, and targets against predictions.

The part of a report about the rows that surprise the model most.

The part of a report about residuals: against predictions and against each column.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from sswim.estimator.evaluation import COVERAGE, ScoreInterval, ScoreIntervals
from sswim.plotting.charts import Axis, Chart, Layer, Level, Line, Points, Spans
from sswim.plotting.html_page import Card, Choice, Details, Findings, Grid, Part, Table, Tile, Tiles
from sswim.report.content import (
    Content,
    bin_means,
    count,
    interval,
    level_means,
    number,
    percent,
    percent_interval,
)
from sswim.report.rows import ReportColumn

_SURPRISE = 1e-3
"""Probability, in both tails together, below which a target counts as a surprise."""

_DOUBT = 0.01
"""Largest probability by chance at which a deviation is told as one."""

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


def scores_part(content: Content, scores: ScoreIntervals) -> Part:
    """Return tiles of the main scores, findings, observed against predicted, and all scores."""
    ninety = scores.coverage[0.9]
    tiles = Tiles(
        (
            Tile("RMSE", number(scores.rmse.value), interval(scores.rmse)),
            Tile("MAE", number(scores.mae.value), interval(scores.mae)),
            Tile("R²", number(scores.r2.value), interval(scores.r2)),
            Tile("MNLP, nats", number(scores.mnlp.value), interval(scores.mnlp)),
            Tile("CRPS", number(scores.crps.value), interval(scores.crps)),
            Tile("within 90 % intervals", percent(ninety.value), percent_interval(ninety)),
        )
    )
    meanings = tuple(f"{name}: {meaning}." for name, meaning in _MEANINGS.items())
    details = Details("What the scores mean", (Findings(meanings),))
    card = Card("All scores", (_table(scores), details), _caption(content))
    sentences = Findings(tuple(findings(content, scores)))
    return Part("scores", "Scores", (tiles, sentences, Grid((_observed_chart(content), card))))


def findings(content: Content, scores: ScoreIntervals) -> list[str]:
    """Return what stands out, as sentences."""
    rows, target = content.scores, content.rows.target
    found = []
    if math.isfinite(scores.r2.value):
        explained = f"The predicted means explain {percent(scores.r2.value)} of the variance"
        if scores.r2.value < 0:
            explained = "The predicted means are worse than the mean of these rows"
        found.append(f"{explained} of {target}; the typical error is {number(scores.rmse.value)}.")
    if content.insight is not None:
        first = [column.name for column in content.insight.importance if column.rmse.mean > 0][:3]
        if first:
            found.append(f"The model draws most on {_listed(first)}.")
    found += [_coverage_sentence(scores.coverage[0.9]), _pit_sentence(rows.pit)]
    bias = rows.residual.mean()
    error = rows.residual.std(ddof=1) / math.sqrt(len(rows.pit)) if len(rows.pit) > 1 else math.inf
    if abs(bias) > 3 * error:
        side = "higher" if bias > 0 else "lower"
        found.append(f"Targets are {side} than predicted by {number(abs(bias))} on average.")
    tail = 2 * np.minimum(rows.pit, 1 - rows.pit)
    n_surprises, expected = int((tail < _SURPRISE).sum()), _SURPRISE * len(tail)
    if stats.binom.sf(n_surprises - 1, len(tail), _SURPRISE) < _DOUBT:
        found.append(
            f"{count(n_surprises, 'row')} of {len(tail):,} had targets that the model gave a "
            f"probability below 0.1 %; by chance it would be about {number(expected, 2)}. They are "
            "in the table of surprising rows."
        )
    return found


def _listed(names: list[str]) -> str:
    """Return names as text, such as "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _coverage_sentence(coverage: ScoreInterval) -> str:
    held = f"90 % intervals hold {percent(coverage.value)} of the targets"
    if coverage.upper < 0.9:
        return f"{held}: they are too narrow."
    if coverage.lower > 0.9:
        return f"{held}: they are wider than they need to be."
    return f"{held}, as they should."


def _pit_sentence(pit: np.ndarray) -> str:
    test = stats.kstest(pit, "uniform")
    if test.pvalue < _DOUBT:
        return (
            "The densities are not quite calibrated: the probability that they give to a range of "
            f"values is off by up to {percent(float(test.statistic))}."
        )
    return f"As far as {count(len(pit), 'row')} can tell, the densities are calibrated."


def _table(scores: ScoreIntervals) -> Table:
    named = {
        "RMSE": scores.rmse,
        "MAE": scores.mae,
        "R²": scores.r2,
        "MNLP": scores.mnlp,
        "CRPS": scores.crps,
    }
    rows = [(name, number(found.value, 4), interval(found)) for name, found in named.items()]
    rows += [
        (
            f"within {100 * coverage:.0f} %",
            percent(found.value),
            percent_interval(found),
        )
        for coverage, found in scores.coverage.items()
    ]
    return Table(("score", "value", "95 % interval"), tuple(rows))


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


def _observed_chart(content: Content) -> Chart:
    scores, drawn, target = content.scores, content.drawn, content.rows.target
    ends = np.array([scores.mean.min(), scores.mean.max()])
    points = Points(
        "mean", "target", "rows", numbers="row", more={"lower": "lower", "upper": "upper"}
    )
    layers: tuple[Layer, ...] = (Line(ends, ends, "exact", 0, "dash"), points)
    if len(drawn) <= _FEW_ROWS:
        layers = (Spans("mean", "lower", "upper", f"{100 * COVERAGE:.0f} % interval", 6), *layers)
    caption = f"Points on the dashed line are predicted exactly.{_drawn_rows(content)}"
    return Chart(
        "Observed and predicted",
        Axis(f"predicted mean of {target}"),
        Axis(f"observed {target}"),
        layers,
        caption,
        ratio=0.85,
    )


def _drawn_rows(content: Content) -> str:
    if len(content.drawn) == len(content.rows):
        return ""
    return (
        f" {len(content.drawn):,} of {len(content.rows):,} rows are drawn, here and below: a "
        "random sample, and those that surprise most."
    )


def surprises_part(content: Content) -> Part:
    """Return a table of the rows with the lowest log density, with their values."""
    rows, scores = content.rows, content.scores
    columns = content.columns
    heads = ("row", "log density", rows.target, "mean", "lower", "upper", "PIT")
    cells = tuple(
        (
            str(rows.numbers[row]),
            f"{scores.log_density[row]:.2f}".replace("-", "−"),
            *(
                number(values[row], 4)
                for values in (scores.target, scores.mean, scores.lower, scores.upper)
            ),
            f"{scores.pit[row]:.4f}",
            *(column.text(row) for column in columns),
        )
        for row in content.surprises.tolist()
    )
    table = Table((*heads, *(column.name for column in columns)), cells, sortable=True)
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
    return Part("surprises", "Surprising rows", (Card("", (table,), caption),), lead)


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
