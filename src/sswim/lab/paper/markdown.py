"""A table as GitHub shows it: narrow, one part for each data set."""

from __future__ import annotations

from collections.abc import Iterator

from sswim.lab.bench.table import unit_of
from sswim.lab.datasets.catalogue import DATA_SETS
from sswim.lab.paper.tables import NEAR, Score, ScoreTable, agreements, label

LEGEND = (
    "Mean ± standard deviation over the repeats, the best of ours in bold; beside it what was "
    "published."
)


def markdown(table: ScoreTable) -> str:
    """The whole page."""
    parts = [f"# {table.title}", LEGEND, *table.notes, *_in_short(table), *_overview(table)]
    for name in table.sets:
        parts += _set(table, name)
    if failures := list(_failures(table)):
        parts += ["## Failures", "\n".join(failures)]
    return "\n\n".join(parts) + "\n"


def _in_short(table: ScoreTable) -> Iterator[str]:
    """How many scores are as published, and which are worse."""
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
        lines.append([label(each.method), str(total), *map(str, counts), worse or "–"])
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _overview(table: ScoreTable) -> Iterator[str]:
    """All means in a table for errors and one for densities, those published in parentheses."""
    for position in (0, 1):
        titles = dict.fromkeys(_title(name, table.metrics(name)[position]) for name in table.sets)
        yield f"**{' or '.join(titles)}** (as published)"
        lines = [["", *table.sets], ["---", *["---:"] * len(table.sets)]]
        for method in table.methods:
            scores = [
                table.scores[name, method, table.metrics(name)[position]] for name in table.sets
            ]
            lines.append([label(method), *map(_short, scores)])
        yield "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _short(score: Score) -> str:
    theirs = f" ({score.theirs()[0]})" if score.published else ""
    return f"{score.ours()[0]}{theirs}"


def _title(name: str, metric: str) -> str:
    """The metric, and its unit where there is one."""
    _, unit = unit_of(name, metric)
    return f"{metric}, {unit}" if unit else metric


def _set(table: ScoreTable, name: str) -> Iterator[str]:
    yield f"## {name}"
    if name in DATA_SETS:
        known = DATA_SETS[name]
        yield f"{known.n_rows:,} rows, {known.n_inputs} inputs. {known.remark}".strip()
    metrics = table.metrics(name)
    header = ["method"]
    for metric in metrics:
        header += [_title(name, metric), "published"]
    lines = [[*header, "repeats"], ["---", *["---:"] * 5]]
    for method in table.methods:
        scores = [table.scores[name, method, metric] for metric in metrics]
        cells = [
            text for score in scores for text in (_ours(table, score), " ± ".join(score.theirs()))
        ]
        lines.append([label(method), *cells, scores[0].repeats])
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _ours(table: ScoreTable, score: Score) -> str:
    mean, *std = score.ours()
    if score.method in table.best(score.set, score.metric):
        mean = f"**{mean}**"
    return " ± ".join([mean, *std])


def _failures(table: ScoreTable) -> Iterator[str]:
    """A line for each method and data set, with the first thing that went wrong."""
    for name in table.sets:
        for method in table.methods:
            failures = table.scores[name, method, table.metrics(name)[0]].failures
            if failures:
                reason = failures[0].replace("`", "'")
                yield f"- {label(method)} on {name}, {len(failures)} repeats: `{reason}`"
