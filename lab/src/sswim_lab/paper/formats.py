"""A score table as CSV, as LaTeX and as Markdown."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator

from sswim_lab.bench.table import markdown_table, metric_label, score_unit
from sswim_lab.datasets import DATA_SETS
from sswim_lab.paper.score_table import NEAR, Score, ScoreTable, agreements, method_label

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


_LATEX_CHARACTERS = {
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
        _latex_row(["method", *map(escape, table.sets)]),
    ]
    for position in (0, 1):
        title = rf"\multicolumn{{{n_columns}}}{{l}}{{\textit{{{_block_title(table, position)}}}}}"
        lines += [r"\midrule", _latex_row([title]), *_latex_rows(table, position)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def escape(text: str) -> str:
    """Escape the special characters of LaTeX."""
    return re.sub(r"[\\~^&%$#_{}]", lambda match: _LATEX_CHARACTERS[match[0]], text)


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


def _latex_rows(table: ScoreTable, position: int) -> Iterator[str]:
    for method in table.methods:
        scores = table.method_scores(method, position)
        yield _latex_row(
            [escape(method_label(method)), *(_latex_ours(table, score) for score in scores)]
        )
        if any(score.published for score in scores):
            yield _latex_row(
                [r"\quad published", *(_latex_cell(score.theirs()) for score in scores)]
            )


def _latex_ours(table: ScoreTable, score: Score) -> str:
    return _latex_cell(score.ours(), bold=score.method in table.best(score.set, score.metric))


def _latex_cell(texts: list[str], *, bold: bool = False) -> str:
    mean, *std = (text.replace("−", "-") for text in texts)
    if not mean[-1].isdigit():  # a word instead of a number
        return mean.replace("–", "--")
    mean = rf"\mathbf{{{mean}}}" if bold else mean
    return "$" + r" \pm ".join([mean, *std]) + "$"


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


LEGEND = (
    "Mean ± standard deviation over the repeats, the best of ours in bold; beside it what was "
    "published."
)


def markdown(table: ScoreTable) -> str:
    """Return the page."""
    parts = [f"# {table.title}", LEGEND, *table.notes, *_agreement(table), *_overview(table)]
    for name in table.sets:
        parts += _section(table, name)
    if failures := list(_failures(table)):
        parts += ["## Failures", "\n".join(failures)]
    return "\n\n".join(parts) + "\n"


def _agreement(table: ScoreTable) -> Iterator[str]:
    """Yield the numbers of scores that are as published, better and worse."""
    if not (found := agreements(table)):
        return
    yield "## In short"
    yield (
        "Scores whose published standard deviation is known and not zero. A score counts as the "
        f"published one if it is within {NEAR:g} of these standard deviations."
    )
    lines = [["method", "scores", "as published", "better", "worse"], ["---", *["---:"] * 3, "---"]]
    for each in found:
        worse = ", ".join(f"{score.set} {score.metric} ({score.z:+.1f})" for score in each.worse)
        counts = (len(each.within), len(each.better))
        total = sum(counts) + len(each.worse)
        lines.append([method_label(each.method), str(total), *map(str, counts), worse or "–"])
    yield markdown_table(lines)


def _overview(table: ScoreTable) -> Iterator[str]:
    """Yield a table of all errors and one of all densities, published ones in parentheses."""
    for position in (0, 1):
        titles = dict.fromkeys(
            metric_label(name, table.metrics(name)[position]) for name in table.sets
        )
        yield f"**{' or '.join(titles)}** (as published)"
        lines = [["", *table.sets], ["---", *["---:"] * len(table.sets)]]
        for method in table.methods:
            scores = table.method_scores(method, position)
            lines.append([method_label(method), *map(_ours_and_published, scores)])
        yield markdown_table(lines)


def _ours_and_published(score: Score) -> str:
    theirs = f" ({score.theirs()[0]})" if score.published else ""
    return f"{score.ours()[0]}{theirs}"


def _section(table: ScoreTable, name: str) -> Iterator[str]:
    """Yield the parts of the section of a data set."""
    yield f"## {name}"
    if name in DATA_SETS:
        facts = DATA_SETS[name]
        yield f"{facts.n_rows:,} rows, {facts.n_inputs} inputs. {facts.remark}".strip()
    metrics = table.metrics(name)
    header = ["method"]
    for metric in metrics:
        header += [metric_label(name, metric), "published"]
    lines = [[*header, "repeats"], ["---", *["---:"] * 5]]
    for method in table.methods:
        scores = [table.scores[name, method, metric] for metric in metrics]
        cells = [
            text
            for score in scores
            for text in (_markdown_ours(table, score), " ± ".join(score.theirs()))
        ]
        lines.append([method_label(method), *cells, scores[0].repeats])
    yield markdown_table(lines)


def _markdown_ours(table: ScoreTable, score: Score) -> str:
    mean, *std = score.ours()
    if score.method in table.best(score.set, score.metric):
        mean = f"**{mean}**"
    return " ± ".join([mean, *std])


def _failures(table: ScoreTable) -> Iterator[str]:
    """Yield a line for each method and data set, with the first failure message."""
    for name in table.sets:
        for method in table.methods:
            failures = table.scores[name, method, table.metrics(name)[0]].failures
            if failures:
                reason = failures[0].replace("`", "'")
                yield f"- {method_label(method)} on {name}, {len(failures)} repeats: `{reason}`"
