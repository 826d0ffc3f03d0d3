"""A table as CSV: a line for each score, with all digits."""

from __future__ import annotations

import csv
import io
import math

from sswim.lab.paper.tables import Score, ScoreTable

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


def long_form(table: ScoreTable) -> str:
    """Numbers that are not known are empty."""
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
