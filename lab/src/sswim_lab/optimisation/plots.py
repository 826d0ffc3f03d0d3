"""Figures of the regrets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sswim.plotting import CYCLE, INK, add_legend, axes
from sswim_lab.optimisation.summary import FLOOR, ProblemSummary, Summary

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
