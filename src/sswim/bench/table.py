"""The table of results, for a terminal or as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sswim.bench.summary import Cell, Mean, Summary, Tally

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
    _, unit = _unit(cell)
    return f"{cell.metric}, {unit}" if unit else cell.metric


def reference(cell: Cell) -> str:
    """The best published, with the digits it has there, and by what method."""
    if cell.published is None:
        return "–"
    value = f"{cell.published.value / _unit(cell)[0]:.10g}".replace("-", "−")
    return f"{value} ({cell.published.method})"


def tally(counts: Tally) -> str:
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
            means = [cell.means.get(name) for name in summary.methods]
            yield [str(mean.n) if mean else "–" for mean in means]


def _values(summary: Summary, cell: Cell, bold: str, *, errors: bool) -> Iterator[str]:
    """What each method reaches, the best in bold."""
    for name in summary.methods:
        if name not in cell.means:
            yield "–"
            continue
        mean = cell.means[name]
        text = _number(cell, mean.value)
        text = bold.format(text) if name in cell.best else text
        yield text + (_error(cell, mean) if errors else "")


def _number(cell: Cell, value: float) -> str:
    """In the unit of the cell, with as many decimals as repeats let one tell apart."""
    value /= _unit(cell)[0]
    return f"{value:{_format(cell, value)}}".replace("-", "−")


def _error(cell: Cell, mean: Mean) -> str:
    """The standard error, with the decimals of its mean."""
    if math.isnan(mean.error):
        return ""
    unit = _unit(cell)[0]
    return f" ±{mean.error / unit:{_format(cell, mean.value / unit)}}"


def _format(cell: Cell, value: float) -> str:
    if cell.metric == "MSE":
        return ".1f" if value >= 100 else ".2f"
    if cell.metric == "RMSE" and value < 0.01:  # as where the target is free of noise
        return ".5f"
    return ".3f"


def _unit(cell: Cell) -> tuple[float, str]:
    return UNITS.get((cell.set, cell.metric), (1.0, ""))
