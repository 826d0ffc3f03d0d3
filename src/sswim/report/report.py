"""A report: one page about a fitted model and rows whose targets are known."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from sswim.base.validation import require_integer
from sswim.estimator.base import BaseRegressor
from sswim.estimator.evaluation import score_intervals, score_rows
from sswim.estimator.progress import prediction_progress
from sswim.files.output_files import check_output_file
from sswim.report.content import Content, count, find_insight, insight_cost
from sswim.report.effects import effects_part, predictions_part
from sswim.report.inside import about_part, inside_part, warps_part
from sswim.report.page import html_page, paragraph, write_page
from sswim.report.rows import ReportRows, report_rows
from sswim.report.scores import calibration_part, residuals_part, scores_part, surprises_part


def write_report(
    regressor: BaseRegressor,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    max_rows: int = 5000,
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
        max_rows: Largest number of rows to use; larger tables are sampled at random.
        random_state: Seed of the sample and of the intervals of scores.
        say: Prints a line of progress.
    """
    require_integer("max_rows", max_rows, 1)
    check_output_file(path, [X] if isinstance(X, str | os.PathLike) else [])
    rows = report_rows(regressor, X, y, max_rows=max_rows, random_state=random_state)
    write_page(path, report_page(regressor, rows, random_state=random_state, say=say))


def report_page(
    regressor: BaseRegressor,
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
    has_insight = len(rows.columns) > 1 and len(rows) > 1
    total = len(rows) + (insight_cost(rows) if has_insight else 0)
    advance = prediction_progress(say, total)
    scores = score_rows(regressor, rows.inputs, rows.targets, advance)
    insight = find_insight(regressor, rows, random_state, advance) if has_insight else None
    content = Content(regressor, rows, scores, insight, random_state)
    parts = [
        scores_part(content, score_intervals(scores, random_state=random_state)),
        predictions_part(content),
    ]
    if insight is not None:
        parts.append(effects_part(insight, rows.target))
    parts += [
        calibration_part(content),
        residuals_part(content),
        surprises_part(content),
        warps_part(content),
        inside_part(content),
        about_part(content, facts or {}),
    ]
    used = f"{len(rows):,} of " if len(rows) < rows.n_rows else ""
    lead = (
        f"A model of {count(len(rows.columns), 'column')}, tested on {used}"
        f"{count(rows.n_rows, 'row')} whose targets are known. Drag over a chart to zoom in, "
        "double-click to zoom out; a name in a legend hides what it names."
    )
    return html_page(f"Report: {rows.target}", [paragraph(lead), content.shared()], parts)
