"""Figures of the regrets."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from sswim.lab.optimisation.summary import FLOOR, ProblemSummary, Summary
from sswim.plotting.style import CYCLE, INK, add_legend, axes

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
    """Save a figure of every problem, and return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for problem in summary.problems:
        figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
        plot_regrets(problem, ax=ax)
        files.append(folder / f"{problem.problem}.png")
        figure.savefig(files[-1], dpi=150)
        plt.close(figure)
    return files
