"""The table of results, for a terminal or as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sswim.lab.bench.summary import Cell, Mean, ScoreSums, Summary

if TYPE_CHECKING:
    from rich.table import Table

UNITS = {("ailerons", "MSE"): (1e-8, "10⁻⁸")}
"""Of cells whose numbers would be unreadable without."""


def markdown(summary: Summary) -> str:
    """The table and what it comes to, as GitHub shows it."""
    header = ["set", "metric", *summary.methods, "best published"]
    lines = [header, ["---"] * len(header)]
    lines += [
        [cell.set, label(cell), *_values(summary, cell, "**{}**", errors=False), reference(cell)]
        if isinstance(cell, Cell)
        else ["", "repeats", *cell, ""]
        for cell in _lines(summary)
    ]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n\n".join([table, *map(tally, summary.tallies)])


def rich_table(summary: Summary) -> Table:
    """The table with standard errors, for a terminal."""
    from rich.table import Table  # noqa: PLC0415 (where it is missing, there is Markdown)

    table = Table(caption="Means over repeats ± their standard errors")
    for name in ("set", "metric"):
        table.add_column(name, no_wrap=True)
    for name in (*summary.methods, "best published"):
        table.add_column(name, justify="right", overflow="fold")
    shown = ""
    for line in _lines(summary):
        if isinstance(line, Cell):
            name, shown = "" if line.set == shown else line.set, line.set
            values = _values(summary, line, "[bold]{}[/bold]", errors=True)
            table.add_row(name, label(line), *values, reference(line))
        else:
            table.add_row("", "repeats", *line, style="dim", end_section=True)
    return table


def label(cell: Cell) -> str:
    """The metric, and its unit where there is one."""
    _, unit = unit_of(cell.set, cell.metric)
    return f"{cell.metric}, {unit}" if unit else cell.metric


def reference(cell: Cell) -> str:
    """The best published, with the digits it has there, and by what method."""
    if cell.published is None:
        return "–"
    value = f"{cell.published.value / unit_of(cell.set, cell.metric)[0]:.10g}".replace("-", "−")
    return f"{value} ({cell.published.method})"


def tally(counts: ScoreSums) -> str:
    """Where a method wins, in words."""
    text = (
        f"{counts.method}: at least as good as the best published in {counts.reached} of "
        f"{counts.n_cells} cells"
    )
    if counts.n_sets:
        text += (
            f"; better than every other method here in error on {counts.errors}, in MNLP on "
            f"{counts.densities} and in both on {counts.both} of {counts.n_sets} sets"
        )
    return text + "."


def _lines(summary: Summary) -> Iterator[Cell | list[str]]:
    """The cells, and after those of a set how many repeats each method has."""
    for number, cell in enumerate(summary.cells):
        yield cell
        if number % 2:  # a set has two
            yield [_repeats(cell, name) for name in summary.methods]


def _values(summary: Summary, cell: Cell, bold: str, *, errors: bool) -> Iterator[str]:
    """What each method reaches, the best in bold."""
    for name in summary.methods:
        if name not in cell.means:
            yield "failed" if name in cell.failures else "–"
            continue
        mean = cell.means[name]
        text = number(cell.set, cell.metric, mean.value)
        text = bold.format(text) if name in cell.best else text
        yield text + (_error(cell, mean) if errors else "")


def _repeats(cell: Cell, method: str) -> str:
    """How many worked, and of how many."""
    if method not in cell.failures:
        return "–"
    n = cell.means[method].n if method in cell.means else 0
    failures = cell.failures[method]
    return f"{n} of {n + failures}" if failures else str(n)


def _error(cell: Cell, mean: Mean) -> str:
    """The standard error, with the decimals of its mean."""
    if math.isnan(mean.error):
        return ""
    return f" ±{number(cell.set, cell.metric, mean.error, like=mean.value)}"


def number(name: str, metric: str, value: float, *, like: float | None = None) -> str:
    """A score in its unit, with as many decimals as repeats let one tell apart.

    Args:
        name: The data set.
        metric: RMSE, MSE or MNLP.
        value: The score.
        like: What to take the decimals from instead, for a spread beside its mean.
    """
    scale, _ = unit_of(name, metric)
    decimals = _decimals(metric, (value if like is None else like) / scale)
    return f"{value / scale:.{decimals}f}".replace("-", "−")


def unit_of(name: str, metric: str) -> tuple[float, str]:
    """The unit in which a score is shown, and what to call it."""
    return UNITS.get((name, metric), (1.0, ""))


def _decimals(metric: str, value: float) -> int:
    if metric == "MSE":
        return 1 if value >= 100 else 2
    if metric == "RMSE" and value < 0.01:  # as where the target is free of noise
        return 5
    return 3
