"""A score table as Markdown: an overview, then a section for each data set."""

from __future__ import annotations

from collections.abc import Iterator

from sswim_lab.bench.table import markdown_table, metric_label
from sswim_lab.datasets import DATA_SETS
from sswim_lab.paper.score_table import NEAR, Score, ScoreTable, agreements, method_label

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
            text for score in scores for text in (_ours(table, score), " ± ".join(score.theirs()))
        ]
        lines.append([method_label(method), *cells, scores[0].repeats])
    yield markdown_table(lines)


def _ours(table: ScoreTable, score: Score) -> str:
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
