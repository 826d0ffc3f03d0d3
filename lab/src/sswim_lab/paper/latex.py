"""A score table for LaTeX with the package booktabs: methods in rows, data sets in columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from sswim_lab.bench.table import score_unit
from sswim_lab.paper.score_table import Score, ScoreTable, method_label

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}


def latex(table: ScoreTable) -> str:
    """Return a tabular environment to input into a document."""
    n_columns = 1 + len(table.sets)
    lines = [
        f"% {table.title}",
        *(f"% {note}" for note in table.notes),
        r"% Needs \usepackage{booktabs}. Below each mean $\pm$ standard deviation: as published.",
        rf"\begin{{tabular}}{{l{'c' * len(table.sets)}}}",
        r"\toprule",
        _row(["method", *map(escape, table.sets)]),
    ]
    for position in (0, 1):
        title = rf"\multicolumn{{{n_columns}}}{{l}}{{\textit{{{_block_title(table, position)}}}}}"
        lines += [r"\midrule", _row([title]), *_score_rows(table, position)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def escape(text: str) -> str:
    """Escape the special characters of LaTeX."""
    return re.sub(r"[\\~^&%$#_{}]", lambda match: _SPECIAL[match[0]], text)


def _block_title(table: ScoreTable, position: int) -> str:
    """Return the title of a block: the metric, and the units of data sets that have one."""
    metrics = {name: table.metrics(name)[position] for name in table.sets}
    title = " or ".join(dict.fromkeys(metrics.values()))
    units = [
        rf"{escape(name)} in $10^{{{math.log10(scale):.0f}}}$"
        for name, metric in metrics.items()
        if (scale := score_unit(name, metric)[0]) != 1
    ]
    return f"{title} ({', '.join(units)})" if units else title


def _score_rows(table: ScoreTable, position: int) -> Iterator[str]:
    for method in table.methods:
        scores = table.method_scores(method, position)
        yield _row([escape(method_label(method)), *(_ours(table, score) for score in scores)])
        if any(score.published for score in scores):
            yield _row([r"\quad published", *(_cell(score.theirs()) for score in scores)])


def _ours(table: ScoreTable, score: Score) -> str:
    return _cell(score.ours(), bold=score.method in table.best(score.set, score.metric))


def _cell(texts: list[str], *, bold: bool = False) -> str:
    mean, *std = (text.replace("−", "-") for text in texts)
    if not mean[-1].isdigit():  # a word instead of a number
        return mean.replace("–", "--")
    mean = rf"\mathbf{{{mean}}}" if bold else mean
    return "$" + r" \pm ".join([mean, *std]) + "$"


def _row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"
