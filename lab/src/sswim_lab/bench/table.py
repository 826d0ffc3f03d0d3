"""The table of results, for a terminal or as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.table import Table

from sswim_lab.bench.summary import Cell, Mean, Summary, Wins, describe_comparison, is_ours

UNITS = {("ailerons", "MSE"): (1e-8, "10⁻⁸"), ("ailerons", "CRPS"): (1e-4, "10⁻⁴")}
"""Units of scores that would be unreadable without: value and name, by data set and metric."""


def markdown(summary: Summary) -> str:
    """Return the table, and a sentence about each method of ours, as Markdown."""
    header = ["set", "metric", *summary.methods, "best published"]
    lines = [header, ["---"] * len(header)]
    for cells in _cells_of_sets(summary):
        for cell in cells:
            values = _values(summary, cell, "**{}**", errors=False)
            lines.append([cell.set, _label(cell), *values, _best_published(cell)])
        lines.append(["", "repeats", *_repeats(summary, cells[0]), ""])
    return "\n\n".join([markdown_table(lines), *map(describe_wins, summary.wins)])


def compact_markdown(summary: Summary, method: str = "sswim") -> str:
    """Return one line for every data set: the scores of a method, and of the best other one."""
    metrics = ("error", "MNLP", "CRPS")
    header = [
        "set",
        *(f"{metric}, {name}" for metric in metrics for name in (method, "best other")),
    ]
    lines = [header, ["---"] * len(header)]
    for cells in _cells_of_sets(summary):
        found = [text for cell in cells for text in _ours_and_best(cell, method)]
        lines.append([cells[0].set, *found, *["–"] * (len(header) - 1 - len(found))])
    sentences = [describe_wins(wins) for wins in summary.wins if wins.method == method]
    return "\n\n".join([markdown_table(lines), *sentences])


def _ours_and_best(cell: Cell, method: str) -> tuple[str, str]:
    """Return the score of a method and that of the best other one, the better in bold."""
    others = {name: mean.value for name, mean in cell.means.items() if not is_ours(name)}
    if method not in cell.means or not others:
        return "–", "–"
    ours = cell.means[method].value
    best = min(others, key=lambda name: others[name])
    texts = [format_score(cell.set, cell.metric, value) for value in (ours, others[best])]
    better = 0 if ours <= others[best] else 1
    texts[better] = f"**{texts[better]}**"
    label = f"{cell.metric} " if cell.metric == "MSE" else ""
    return f"{label}{texts[0]}", f"{texts[1]} ({best})"


def markdown_table(lines: Iterable[Sequence[str]]) -> str:
    """Return lines of cells as a Markdown table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def rich_table(summary: Summary) -> Table:
    """Return the table with standard errors, for a terminal."""
    table = Table(caption="Means over repeats ± their standard errors")
    for name in ("set", "metric"):
        table.add_column(name, no_wrap=True)
    for name in (*summary.methods, "best published"):
        table.add_column(name, justify="right", overflow="fold")
    for cells in _cells_of_sets(summary):
        for cell in cells:
            name = cell.set if cell is cells[0] else ""
            values = _values(summary, cell, "[bold]{}[/bold]", errors=True)
            table.add_row(name, _label(cell), *values, _best_published(cell))
        repeats = _repeats(summary, cells[0])
        table.add_row("", "repeats", *repeats, style="dim", end_section=True)
    return table


def describe_wins(wins: Wins) -> str:
    """Return a sentence about where a method wins, and one that compares it in three scores."""
    text = (
        f"{wins.method}: at least as good as the best published in {wins.reached} of "
        f"{wins.n_cells} cells"
    )
    if wins.n_sets:
        text += (
            f"; better than every other method here in error on {wins.errors}, in MNLP on "
            f"{wins.densities} and in both on {wins.both} of {wins.n_sets} sets"
        )
    text += "."
    return text if wins.comparison is None else f"{text} {describe_comparison(wins.comparison)}"


def metric_label(name: str, metric: str) -> str:
    """Return a metric with the unit in which it is shown for a data set."""
    _, unit = score_unit(name, metric)
    return f"{metric}, {unit}" if unit else metric


def score_unit(name: str, metric: str) -> tuple[float, str]:
    """Return the value and the name of the unit in which a score is shown."""
    return UNITS.get((name, metric), (1.0, ""))


def format_score(name: str, metric: str, value: float, *, like: float | None = None) -> str:
    """Format a score in its unit, without decimals that vary between repeats.

    Args:
        name: The data set.
        metric: RMSE, MSE, MNLP or CRPS.
        value: The score.
        like: The score that determines the number of decimals, by default ``value`` itself; the
            mean for a standard deviation.
    """
    scale, _ = score_unit(name, metric)
    decimals = _decimals(metric, (value if like is None else like) / scale)
    return _with_minus(f"{value / scale:.{decimals}f}")


def format_published(name: str, metric: str, value: float, form: str) -> str:
    """Format a published score in its unit, by a format specification."""
    return _with_minus(f"{value / score_unit(name, metric)[0]:{form}}")


def format_repeats(n_worked: int, n_failed: int) -> str:
    """Format the number of repeats that worked, and the total if some failed."""
    if n_failed:
        return f"{n_worked} of {n_worked + n_failed}"
    return str(n_worked) if n_worked else "–"


def _cells_of_sets(summary: Summary) -> Iterator[list[Cell]]:
    """Yield the cells of each data set: error, MNLP and any CRPS."""
    for _, cells in groupby(summary.cells, key=lambda cell: cell.set):
        yield list(cells)


def _label(cell: Cell) -> str:
    return metric_label(cell.set, cell.metric)


def _best_published(cell: Cell) -> str:
    """Return the best published score with its published digits, and its method."""
    if cell.published is None:
        return "–"
    value = format_published(cell.set, cell.metric, cell.published.value, ".10g")
    return f"{value} ({cell.published.method})"


def _values(summary: Summary, cell: Cell, bold: str, *, errors: bool) -> Iterator[str]:
    """Yield the score of each method, the best in bold."""
    for name in summary.methods:
        if name not in cell.means:
            yield "failed" if name in cell.failures else "–"
            continue
        mean = cell.means[name]
        text = format_score(cell.set, cell.metric, mean.value)
        text = bold.format(text) if name in cell.best else text
        yield text + (_standard_error(cell, mean) if errors else "")


def _repeats(summary: Summary, cell: Cell) -> Iterator[str]:
    """Yield the number of repeats of each method."""
    for name in summary.methods:
        n_worked = cell.means[name].n if name in cell.means else 0
        yield format_repeats(n_worked, cell.failures.get(name, 0))


def _standard_error(cell: Cell, mean: Mean) -> str:
    """Return the standard error with the decimals of its mean, empty for one repeat."""
    if math.isnan(mean.error):
        return ""
    return f" ±{format_score(cell.set, cell.metric, mean.error, like=mean.value)}"


def _decimals(metric: str, value: float) -> int:
    if metric == "MSE":
        return 1 if value >= 100 else 2
    if metric in ("RMSE", "CRPS") and value < 0.01:  # where the target has no noise
        return 5
    return 3


def _with_minus(number: str) -> str:
    """Replace the hyphen of a number by a minus sign."""
    return number.replace("-", "−")
