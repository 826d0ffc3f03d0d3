"""A report: one page about a fitted model and rows whose targets are known."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from sswim.base.validation import require_integer
from sswim.estimator.evaluation import score_intervals, score_rows
from sswim.estimator.progress import prediction_progress
from sswim.estimator.regressor import SSWIMRegressor
from sswim.files.output_files import check_output_file
from sswim.plotting.html_page import Link, Part, Text, html_page, page_script, write_page
from sswim.report.calibration_part import calibration_part
from sswim.report.content import Content, count, find_insight, insight_cost
from sswim.report.effects_part import effects_part, predictions_part
from sswim.report.inside_part import about_part, inside_part, warps_part
from sswim.report.rows import ReportRows, report_rows, told_values
from sswim.report.scores_part import residuals_part, scores_part, surprises_part

MAX_ROWS = 5000
"""Largest number of rows of a report by default; of more, a random sample is used."""


def write_report(
    regressor: SSWIMRegressor,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    max_rows: int = MAX_ROWS,
    random_state: int = 0,
    say: Callable[[str], object] | None = None,
) -> None:
    """Write a page about a model and rows that it was not fitted to: scores, charts, surprises.

    The page is one HTML file that needs nothing else and makes no requests.

    Args:
        regressor: A fitted estimator of one target.
        X: Inputs: an array, a data frame, or the path of a table.
        y: Targets, or the name of the target column of a frame or table.
        path: The file to write.
        max_rows: Largest number of rows to use; of more, a random sample is used.
        random_state: Seed of the sample and of the intervals of scores.
        say: Prints a line of progress.
    """
    require_integer("max_rows", max_rows, 1)
    inputs = [X] if isinstance(X, str | os.PathLike) else []
    check_output_file(path, inputs)
    rows = report_rows(regressor, X, y, max_rows=max_rows, random_state=random_state)
    write_page(path, report_page(regressor, rows, random_state=random_state, say=say))


def report_page(
    regressor: SSWIMRegressor,
    rows: ReportRows,
    *,
    random_state: int = 0,
    facts: Mapping[str, str] | None = None,
    say: Callable[[str], object] | None = None,
) -> str:
    """Return the HTML of a report.

    Args:
        regressor: A fitted estimator of one target.
        rows: Rows with known targets.
        random_state: Seed of the intervals of scores and of the rows that are drawn.
        facts: What the reader should know besides, such as names of files.
        say: Prints a line of progress.
    """
    content = _content(regressor, rows, random_state, say)
    with told_values():
        parts = _parts(content, facts or {})
    used = f"{len(rows):,} of " if len(rows) < rows.n_rows else ""
    lead = (
        f"A model of {count(len(rows.columns), 'column')}, tested on {used}"
        f"{count(rows.n_rows, 'row')} whose targets are known. Drag over a chart to zoom in, "
        "double-click to zoom out; a name in a legend hides what it names."
    )
    return html_page(
        f"Report: {rows.target}",
        (Text(lead), content.shared(), *parts),
        script=page_script(),
        links=tuple(Link(part.title, part.place) for part in parts),
    )


def _content(
    regressor: SSWIMRegressor,
    rows: ReportRows,
    random_state: int,
    say: Callable[[str], object] | None,
) -> Content:
    """Predict the rows, and ask the model about its columns where there are several."""
    explained = len(rows.columns) > 1 and len(rows) > 1
    total = len(rows) + (insight_cost(rows) if explained else 0)
    advance = prediction_progress(say or _ignore, total)
    with told_values():
        scores = score_rows(regressor, rows.inputs, rows.targets, advance)
        insight = find_insight(regressor, rows, random_state, advance) if explained else None
    return Content(regressor, rows, scores, insight, random_state)


def _parts(content: Content, facts: Mapping[str, str]) -> tuple[Part, ...]:
    """Return the parts of a report, in their order."""
    scores = score_intervals(content.scores, random_state=content.random_state)
    insight = content.insight
    return (
        scores_part(content, scores),
        predictions_part(content),
        *((effects_part(insight, content.rows.target),) if insight is not None else ()),
        calibration_part(content),
        residuals_part(content),
        surprises_part(content),
        warps_part(content),
        inside_part(content),
        about_part(content, facts),
    )


def _ignore(text: str) -> None:
    """Print nothing."""
