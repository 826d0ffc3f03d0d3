"""Figure of a monitor's report on new rows."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float64
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from sswim.conformal import Coverage, MonitorReport
from sswim.plotting.style import CYCLE, INK, add_legend, axes, draw_points

_INPUTS, *_TARGETS = CYCLE[2], *CYCLE[:2], *CYCLE[3:]
"""Colours of the evidence of inputs, and of each target."""

_BINS = 20
"""Number of bins of the PIT."""

_TWO_SIDED_95 = 1.96
"""Standard deviations to either side within which a normal variable lies with 95 %."""


def plot_monitor(report: MonitorReport, *, figure: Figure | None = None) -> Figure:
    """Plot a report in four panels: PIT, coverage, evidence of drift and distances of the inputs.

    Args:
        report: The result of ``SSWIMRegressor.monitor``.
        figure: Figure to draw into; by default a new one.

    Returns:
        The figure. Without targets it has only the panels of evidence and distances.
    """
    size = (10.0, 7.0) if report.coverage is not None else (10.0, 3.8)
    figure = plt.figure(figsize=size, layout="constrained") if figure is None else figure
    if report.pit is None or report.coverage is None:
        evidence, distances = figure.subplots(1, 2)
    else:
        (pit, coverage), (evidence, distances) = figure.subplots(2, 2)
        _draw_pit(axes(pit), report.pit.reshape(len(report.pit), -1))
        _draw_coverage(axes(coverage), report.coverage)
    _draw_evidence(axes(evidence), report)
    _draw_distances(axes(distances), report)
    figure.suptitle("\n".join(alarm.says for alarm in report.alarms) or report.says, fontsize=11)
    return figure


def _draw_pit(ax: Axes, pit: Float64[np.ndarray, "N T"]) -> None:
    n = len(pit)
    unit = n / _BINS  # expected number of rows in a bin
    low, high = np.asarray(stats.binom.interval(0.95, n, 1 / _BINS)) / unit
    highest = high
    for number, column in enumerate(pit.T):
        counts, edges = np.histogram(column, _BINS, (0, 1))
        label, colour = _target_label(number, pit.shape[1], "new rows"), _target_colour(number)
        if pit.shape[1] == 1:
            ax.stairs(counts / unit, edges, fill=True, color=colour, alpha=0.55, lw=0, label=label)
        else:  # filled ones would hide each other
            ax.stairs(counts / unit, edges, color=colour, lw=1.2, label=label)
        highest = max(highest, counts.max() / unit)
    ax.axhspan(low, high, color=INK, alpha=0.15, lw=0, label="95 % by chance")
    ax.axhline(1, color=INK, lw=0.8, ls="--")
    ax.set(xlim=(0, 1), ylim=(0, 1.3 * highest))  # room for the legend
    ax.set(xlabel="predicted probability of a smaller target", ylabel="density")
    add_legend(ax)


def _draw_coverage(ax: Axes, coverage: Coverage) -> None:
    percent = 100 * coverage.nominal
    ax.plot([0, 100], [0, 100], color=INK, lw=0.8, ls="--", label="as claimed")
    ax.plot(percent, 100 * coverage.expected, color=INK, ls="", marker="_", ms=14, mew=1.5,
            label="held-out rows")  # fmt: skip
    ax.errorbar(
        percent,
        100 * coverage.observed,
        yerr=100 * _TWO_SIDED_95 * coverage.error,
        color=CYCLE[0],
        ls="",
        marker="o",
        ms=4,
        capsize=3,
        lw=1.2,
        label="new rows, 95 % by chance",
    )
    ax.set(xlim=(40, 100), ylim=(min(40, 95 * coverage.observed.min()), 103))
    ax.set(xlabel="coverage of the interval, %", ylabel="targets within, %")
    add_legend(ax)


def _draw_evidence(ax: Axes, report: MonitorReport) -> None:
    rows, unit = np.arange(report.n_rows), math.log(10)
    ax.plot(rows, report.input_log_evidence / unit, color=_INPUTS, lw=1.2, label="inputs")
    if report.target_log_evidence is not None:
        n_targets = report.target_log_evidence.shape[1]
        for number, path in enumerate(report.target_log_evidence.T):
            label = _target_label(number, n_targets, "targets")
            ax.plot(rows, path / unit, color=_target_colour(number), lw=1.2, label=label)
    threshold = -math.log10(report.false_alarm)
    ax.axhline(threshold, color=INK, lw=0.8, ls="--", label="alarm")
    for alarm in report.alarms:
        ax.plot(alarm.row, threshold, ls="", marker="v", ms=7, color=INK)
    ax.set(xlabel="row", ylabel="evidence of drift, log₁₀")
    # How far it grows after an alarm says little, and would hide what came before.
    ax.set_ylim(report.log_evidence.min() / unit - 0.5, 3 * threshold)
    add_legend(ax)


def _draw_distances(ax: Axes, report: MonitorReport) -> None:
    rows = np.arange(report.n_rows, dtype=np.float64)
    draw_points(ax, rows, report.input_distance, label="new rows", color=CYCLE[0])
    for level, distance, style in ((95, report.distance_95, "--"), (99, report.distance_99, ":")):
        label = f"{level} % of held-out rows"
        ax.axhline(distance, color=INK, lw=0.8, ls=style, label=label)
    ax.set(xlabel="row", ylabel="distance of the inputs from rows seen")
    # A few rows very far away would hide all others, unless the scale above the lines is
    # logarithmic.
    linear = 2 * report.distance_99
    if linear > 0 and report.input_distance.max() > 5 * linear:
        ax.set_yscale("symlog", linthresh=linear)
    ax.set_ylim(0, 1.35 * max(report.distance_99, report.input_distance.max()))  # room, as above
    add_legend(ax)


def _target_colour(number: int) -> str:
    return _TARGETS[number % len(_TARGETS)]


def _target_label(number: int, n_targets: int, single: str) -> str:
    return single if n_targets == 1 else f"target {number}"
