"""Tables of regrets and seconds, for a terminal or as Markdown, and figures of the regrets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product, zip_longest
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from sswim.plotting import CYCLE, INK, add_legend, axes
from sswim_lab.bench.table import markdown_table
from sswim_lab.optimisation.summary import FLOOR, GPS, LATE, ProblemSummary, Summary

Lines = list[list[str]]


def markdown(summary: Summary) -> str:
    """Return both tables, and a sentence about each method of ours, as Markdown."""
    tables = [
        markdown_table([lines[0], ["---"] * len(lines[0]), *lines[1:]])
        for lines in (_regret_lines(summary, "**{}**"), _second_lines(summary))
    ]
    return "\n\n".join([tables[0], *describe_ratios(summary), tables[1]])


def rich_tables(summary: Summary) -> tuple[Table, Table]:
    """Return both tables for a terminal."""
    caption = f"Median regret after {summary.evaluations} evaluations (quartiles)"
    return (
        _rich_table(_regret_lines(summary, "[bold]{}[/bold]"), caption),
        _rich_table(_second_lines(summary), "Median seconds of a suggestion"),
    )


def describe_ratios(summary: Summary) -> list[str]:
    """Return a sentence about the ratios of each method of ours."""
    sentences = []
    for method in _ours(summary):
        parts = []
        for fresh, stationary in product((False, True), repeat=2):
            mean, n = summary.mean_ratio(method, stationary=stationary, fresh=fresh)
            if n:
                kind = ("fresh " if fresh else "") + ("" if stationary else "non") + "stationary"
                parts.append(f"{_number(mean)} on {n} {kind} {'problem' if n == 1 else 'problems'}")
        sentences.append(
            f"{method}: its median regret over that of the better GP ({', '.join(GPS)}) has the "
            f"geometric mean {_listed(parts)}."
        )
    return sentences


def _listed(parts: Sequence[str]) -> str:
    """Return parts of a sentence, joined by commas and a last "and"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _ours(summary: Summary) -> list[str]:
    """Return the methods of ours that have a ratio on some problem."""
    found = {method for problem in summary.problems for method in problem.ratios}
    return [method for method in summary.methods if method in found]


def _regret_lines(summary: Summary, bold: str) -> Lines:
    ours = _ours(summary)
    heads = [f"{method} / best GP" for method in ours]
    lines = [["problem", "runs", *summary.methods, *heads]]
    for problem in summary.problems:
        notes = [
            note
            for note, holds in (("stationary", problem.stationary), ("fresh", problem.fresh))
            if holds
        ]
        name = f"{problem.problem} ({', '.join(notes)})" if notes else problem.problem
        ratios = [problem.ratios.get(method, math.nan) for method in ours]
        lines.append([name, _runs(problem), *_cells(summary, problem, bold), *map(_number, ratios)])
    return lines


def _cells(summary: Summary, problem: ProblemSummary, bold: str) -> list[str]:
    """Return the regrets of all methods on a problem, the least median in bold."""
    best = min(problem.after(method).median for method in problem.regrets)
    cells = []
    for method in summary.methods:
        if method not in problem.regrets:
            cells.append("failed" if problem.failures.get(method) else "–")
            continue
        found = problem.after(method)
        text = _number(found.median)
        text = bold.format(text) if found.median == best else text
        failed = f", {problem.failures[method]} failed" if problem.failures[method] else ""
        cells.append(f"{text} ({_number(found.lower)}–{_number(found.upper)}{failed})")
    return cells


def _runs(problem: ProblemSummary) -> str:
    """Return the number of runs of a method, or the least and the greatest."""
    counts = [len(rows) for rows in problem.regrets.values()]
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"


def _second_lines(summary: Summary) -> Lines:
    return [
        ["method", "seconds per suggestion", f"of the last {LATE}"],
        *(
            [method, _number(seconds.all), _number(seconds.late)]
            for method, seconds in summary.seconds.items()
        ),
    ]


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def _rich_table(lines: Sequence[Sequence[str]], caption: str) -> Table:
    table = Table(caption=caption)
    for position, name in enumerate(lines[0]):
        table.add_column(name, justify="right" if position else "left", overflow="fold")
    for line in lines[1:]:
        table.add_row(*line)
    return table


COLOURS = {
    "sswim": CYCLE[0],
    "gp": CYCLE[1],
    "gp-warp": CYCLE[2],
    "forest": CYCLE[4],
    "sobol": INK,
}
"""By model; Thompson sampling is dashed."""


def plot_regrets(summary: ProblemSummary, *, ax: Axes | None = None) -> Axes:
    """Plot the median regret of every method against the evaluations, with quartile bands."""
    ax = axes(ax)
    for method, regrets in summary.regrets.items():
        model = method.removesuffix("-nei").removesuffix("-ts")
        lower, middle, upper = np.maximum(np.quantile(regrets, (0.25, 0.5, 0.75), axis=0), FLOOR)
        steps = np.arange(1, len(middle) + 1)
        style = "--" if method.endswith("-ts") else "-"
        ax.plot(steps, middle, style, color=COLOURS[model], lw=1.4, label=method)
        ax.fill_between(steps, lower, upper, color=COLOURS[model], alpha=0.12, lw=0)
    ax.set(yscale="log", xlabel="evaluations", ylabel="regret", title=summary.problem)
    add_legend(ax)
    return ax


def save_plots(summary: Summary, folder: Path) -> list[Path]:
    """Save a figure of every problem and one of all problems, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for problem in summary.problems:
        figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
        plot_regrets(problem, ax=ax)
        files.append(folder / f"{problem.problem}.png")
        figure.savefig(files[-1], dpi=150)
        plt.close(figure)
    files.append(folder / "all.png")
    figure = _plot_all(summary.problems)
    figure.savefig(files[-1], dpi=100)
    plt.close(figure)
    return files


def _plot_all(problems: Sequence[ProblemSummary]) -> Figure:
    """Return a figure with a panel for every problem and one legend."""
    n_columns = min(4, len(problems))
    n_rows = math.ceil(len(problems) / n_columns)
    figure, panels = plt.subplots(
        n_rows, n_columns, figsize=(3.2 * n_columns, 2.4 * n_rows), layout="constrained"
    )
    handles: dict[str, Artist] = {}
    for problem, ax in zip_longest(problems, np.ravel(panels)):
        if problem is None:
            ax.set_axis_off()
            continue
        plot_regrets(problem, ax=ax)
        lines, labels = ax.get_legend_handles_labels()
        handles |= dict(zip(labels, lines, strict=True))
        ax.get_legend().remove()
        ax.label_outer()
        ax.tick_params(labelleft=True)
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=len(handles))
    return figure
