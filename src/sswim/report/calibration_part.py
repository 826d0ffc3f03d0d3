"""The part of a report about the calibration of densities."""

from __future__ import annotations

import numpy as np
from scipy import stats

from sswim.estimator.evaluation import COVERAGE, share_interval
from sswim.plotting.charts import Axis, Band, Boxes, Chart, Level, Line, Points, Spans
from sswim.plotting.html_page import Grid, Part
from sswim.report.content import Content, number

_LEVELS = np.linspace(0.05, 0.95, 19)
"""Coverages of the intervals whose calibration is shown."""

_UNIT = np.array([0.0, 1.0])
_N_GROUPS = 10


def calibration_part(content: Content) -> Part:
    """Return the coverage of intervals, the PIT, and coverage by width."""
    lead = (
        "Densities are calibrated if what they give a probability of 90 % happens nine times in "
        "ten. Grey bands are where a calibrated model lies with a probability of 95 %."
    )
    charts = (_coverage_chart(content), _pit_chart(content), _width_chart(content))
    return Part("calibration", "Calibration", (Grid(charts, small=True),), lead)


def _coverage_chart(content: Content) -> Chart:
    n = len(content.rows)
    observed = np.array([content.scores.inside(level).mean() for level in _LEVELS])
    low, high = np.asarray(stats.binom.interval(0.95, n, _LEVELS)) / n
    return Chart(
        "Coverage of intervals",
        Axis("nominal coverage", domain=(0.0, 1.0)),
        Axis("share of targets within", domain=(0.0, 1.0)),
        (
            Band(_LEVELS, low, high, "95 % by chance", 0),
            Line(_UNIT, _UNIT, "exact", 0, "dash", rule=True),
            Line(_LEVELS, observed, "model", 1),
            Points(_LEVELS, observed, colour=1),
        ),
        "Below the dashed line intervals are too narrow, above it too wide.",
        square=True,
    )


def _pit_chart(content: Content) -> Chart:
    n = len(content.rows)
    bins = int(np.clip(n // 15, 5, 20))
    counts, edges = np.histogram(content.scores.pit, bins, (0, 1))
    low, high = np.asarray(stats.binom.interval(0.95, n, 1 / bins)) * bins / n
    return Chart(
        "Probability integral transform",
        Axis("probability of a smaller target", domain=(0.0, 1.0)),
        Axis("density of rows", zero=True),
        (
            Boxes(edges, counts * bins / n, "model", 1),
            Band(_UNIT, np.full(2, low), np.full(2, high), "95 % by chance", 0),
            Line(_UNIT, np.ones(2), "exact", 0, "dash"),
        ),
        "Flat if calibrated. High at both ends: densities too narrow; high in the middle: too "
        "wide; a slope: predictions too low or too high.",
        square=True,
    )


def _width_chart(content: Content) -> Chart:
    """Return the coverage of groups of rows with narrow and with wide intervals."""
    scores = content.scores
    width = scores.upper - scores.lower
    n_groups = int(np.clip(len(width) // 10, 1, _N_GROUPS))
    groups = np.array_split(np.argsort(width, kind="stable"), n_groups)
    shares = [share_interval(scores.inside(COVERAGE)[group]) for group in groups]
    places = np.arange(n_groups, dtype=np.float64)
    lower, value, upper = (
        np.array([getattr(share, name) for share in shares]) for name in ("lower", "value", "upper")
    )
    widths = tuple(number(float(np.median(width[group])), 2) for group in groups)
    return Chart(
        "Where the model is more or less sure",
        Axis("typical width of the 90 % interval", levels=widths),
        Axis("share of targets within", domain=(min(0.6, float(lower.min()) - 0.02), 1.02)),
        (
            Level(COVERAGE, "exact"),
            Spans(places, lower, upper, "95 % interval", 6),
            Points(places, value, "model", 1, "marks"),
        ),
        "Rows in groups of equal size, from the narrowest intervals to the widest. All groups "
        "should hold 90 %.",
        square=True,
    )
