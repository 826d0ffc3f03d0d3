"""A score table as CSV: one line for each score, with all digits."""

from __future__ import annotations

import csv
import io
import math

from sswim_lab.paper.score_table import Score, ScoreTable

COLUMNS = (
    "set",
    "method",
    "metric",
    "mean",
    "sd",
    "repeats",
    "failures",
    "published_mean",
    "published_sd",
    "z",
)


def csv_table(table: ScoreTable) -> str:
    """Return the table as CSV, with empty cells for unknown numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(_line(score) for score in table.scores.values())
    return text.getvalue()


def _line(score: Score) -> list[object]:
    mean, published = score.mean, score.published
    return [
        score.set,
        score.method,
        score.metric,
        *((mean.value, "" if math.isnan(mean.std) else mean.std, mean.n) if mean else ("", "", 0)),
        len(score.failures),
        *((published.value, published.std) if published else ("", "")),
        "" if score.z is None else score.z,
    ]
