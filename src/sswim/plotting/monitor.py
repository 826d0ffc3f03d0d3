"""Figure of a monitor's report on new rows."""

from __future__ import annotations

import math
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sswim.conformal import Coverage, MonitorReport
from sswim.plotting.style import BARS, CYCLE, INK, add_legend, axes, draw_pit, draw_points

_INPUTS, *_TARGETS = CYCLE[2], *CYCLE[:2], *CYCLE[3:]
"""Colours of the evidence of inputs, and of each target."""

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
        pits = report.pit.reshape(len(report.pit), -1)
        labels = _target_labels(pits.shape[1], "new rows")
        highest = draw_pit(axes(pit), pits, labels, colors=_TARGETS)
        pit.axhline(1, color=INK, lw=0.8, ls="--")
        pit.set_ylim(0, 1.3 * highest)  # room for the legend
        add_legend(pit)
        _draw_coverage(axes(coverage), report.coverage)
    _draw_evidence(axes(evidence), report)
    _draw_distances(axes(distances), report)
    figure.suptitle("\n".join(alarm.says for alarm in report.alarms) or report.says, fontsize=11)
    return figure


def _draw_coverage(ax: Axes, coverage: Coverage) -> None:
    percent = 100 * coverage.nominal
    ax.plot([0, 100], [0, 100], color=INK, lw=0.8, ls="--", label="as claimed")
    ax.plot(percent, 100 * coverage.expected, color=INK, ls="", marker="_", ms=14, mew=1.5,
            label="held-out rows")  # fmt: skip
    reach = 100 * _TWO_SIDED_95 * coverage.error
    label = "new rows, 95 % by chance"
    ax.errorbar(percent, 100 * coverage.observed, reach, **BARS, ms=4, lw=1.2, label=label)
    ax.set(xlim=(40, 100), ylim=(min(40, 95 * coverage.observed.min()), 103))
    ax.set(xlabel="coverage of the interval, %", ylabel="targets within, %")
    add_legend(ax)


def _draw_evidence(ax: Axes, report: MonitorReport) -> None:
    rows, unit = np.arange(report.n_rows), math.log(10)
    ax.plot(rows, report.input_log_evidence / unit, color=_INPUTS, lw=1.2, label="inputs")
    if report.target_log_evidence is not None:
        labels = _target_labels(report.target_log_evidence.shape[1], "targets")
        paths = zip(report.target_log_evidence.T, labels, cycle(_TARGETS), strict=False)
        for path, label, color in paths:
            ax.plot(rows, path / unit, color=color, lw=1.2, label=label)
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


def _target_labels(n_targets: int, single: str) -> list[str]:
    return [single] if n_targets == 1 else [f"target {number}" for number in range(n_targets)]
