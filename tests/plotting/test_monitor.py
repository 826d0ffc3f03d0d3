"""The four panels of a monitor's report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from builders.figures import legend_labels
from builders.scores import draw_scores
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from sswim.conformal import ConformityScores, MonitorReport, monitor_rows
from sswim.plotting import plot_monitor


def make_report(new: ConformityScores) -> MonitorReport:
    reference = draw_scores(300, 99, n_targets=max(1, new.scores.shape[1]))
    return monitor_rows(reference, new, torch.Generator().manual_seed(0))


def panels(report: MonitorReport) -> list[Axes]:
    return plot_monitor(report, figure=Figure()).axes


def lines(ax: Axes) -> dict[str, list[float]]:
    return {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in ax.get_lines()}


def test_the_panels_show_what_the_report_says() -> None:
    report = make_report(draw_scores(200, shift=1.0, since=100))
    assert report.pit is not None
    assert report.coverage is not None
    assert report.target_log_evidence is not None
    figure = plot_monitor(report, figure=Figure())
    pit, coverage, evidence, distances = figure.axes
    assert figure.get_suptitle() == report.says
    (histogram,) = (patch for patch in pit.patches if isinstance(patch, StepPatch))
    expected, _ = np.histogram(report.pit, 20, (0, 1), density=True)
    np.testing.assert_allclose(histogram.get_data()[0], expected)
    assert legend_labels(coverage) == ["as claimed", "held-out rows", "new rows, 95 % by chance"]
    assert lines(coverage)["held-out rows"] == (100 * report.coverage.expected).tolist()
    found = lines(evidence)
    np.testing.assert_allclose(found["targets"], report.target_log_evidence[:, 0] / np.log(10))
    np.testing.assert_allclose(found["inputs"], report.input_log_evidence / np.log(10))
    np.testing.assert_allclose(found["alarm"], 2)  # a hundredfold for false_alarm=0.01
    marks = [line for line in evidence.get_lines() if line.get_marker() == "v"]
    assert [list(mark.get_xdata()) for mark in marks] == [[report.alarm_row]]  # type: ignore[arg-type]
    assert lines(distances)["new rows"] == report.input_distance.tolist()
    assert lines(distances)["95 % of held-out rows"] == [report.distance_95] * 2


def test_without_targets_two_panels_are_left() -> None:
    new = draw_scores(50)
    new = replace(new, scores=new.scores[:, :0], pit=new.pit[:, :0])
    evidence, distances = panels(make_report(new))
    assert legend_labels(evidence) == ["inputs", "alarm"]
    assert distances.get_yscale() == "linear"


def test_several_targets_have_their_own_lines() -> None:
    pit, _, evidence, _ = panels(make_report(draw_scores(50, n_targets=2)))
    assert legend_labels(pit) == ["target 0", "target 1", "95 % by chance"]
    assert legend_labels(evidence) == ["inputs", "target 0", "target 1", "alarm"]


def test_a_wild_row_does_not_hide_the_others() -> None:
    new = draw_scores(50)
    new.distance[3] = 1e90
    *_, distances = panels(make_report(new))
    assert distances.get_yscale() == "symlog"
    assert distances.get_ylim()[1] > 1e90
