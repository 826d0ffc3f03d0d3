"""The part of a report about the rows that surprise the model most."""

from __future__ import annotations

from sswim.plotting.html_page import Table
from sswim.plotting.page_layout import Card, Part
from sswim.report.content import Content
from sswim.report.numbers import number


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
