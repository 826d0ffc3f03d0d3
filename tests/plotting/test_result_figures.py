"""Figures of results: relevance, effects, local length-scales and a monitor's report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from builders.estimators import make_rows, skewed_rows, small
from builders.figures import legend_labels
from builders.scores import draw_scores
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle, StepPatch

from sswim.base.validation import UserError
from sswim.conformal import ConformityScores, monitor_rows
from sswim.estimator import BaseRegressor
from sswim.insight.relevance import Relevance
from sswim.plotting import plot_effect, plot_local_metric, plot_monitor, plot_relevance


@pytest.fixture(autouse=True)
def _close_figures(matplotlib_left_alone: None) -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def model() -> BaseRegressor:
    random = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "size": random.normal(size=80),
            "colour": random.choice(["red", "blue"], 80),
            "day": pd.date_range("2020-01-01", periods=80),
            "shape": random.choice(["round", "flat"], 80),
        }
    )
    return small(depth=1, n_members=2).fit(rows, np.sin(rows["size"]))


def test_relevance_has_the_largest_on_top(model: BaseRegressor) -> None:
    shares = np.arange(40.0) / np.arange(40.0).sum()
    forty = Relevance(tuple(f"x{place}" for place in range(40)), shares, shares[None], np.ones(1))
    for relevance, names in (
        (model.relevance(), [model.relevance().names[place] for place in model.relevance().order]),
        (forty, ["x39", "x38", "x37", "x36", "x35", "35 others"]),
    ):
        ax = plot_relevance(relevance, max_bars=5)
        assert [text.get_text() for text in ax.get_yticklabels()] == names
        widths = [bar.get_width() for bar in ax.patches if isinstance(bar, Rectangle)]
        assert widths[:5] == sorted(widths[:5], reverse=True)
        np.testing.assert_allclose(sum(widths), 1)


def test_effects_of_all_kinds(model: BaseRegressor) -> None:
    size = model.effect("size", grid=5)
    number = plot_effect(size)
    assert number.get_xlabel() == "size"
    np.testing.assert_allclose(np.asarray(number.lines[0].get_ydata()), size.mean)
    colour = plot_effect(model.effect("colour"))
    assert [text.get_text().split("\n")[0] for text in colour.get_xticklabels()] == ["blue", "red"]
    day = plot_effect(model.effect("day", grid=5))
    day.figure.canvas.draw()
    pair = plot_effect(model.effect(("size", "day"), grid=3))
    pair.figure.canvas.draw()
    assert (pair.get_xlabel(), pair.get_ylabel()) == ("size", "day")
    for columns in (("size", "colour"), ("colour", "size")):
        effect = model.effect(columns, grid=3)
        ax = plot_effect(effect)
        assert ax.get_xlabel() == "size"
        blue = np.take(effect.mean, 0, axis=columns.index("colour"))
        np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata()), blue)
    both = plot_effect(model.effect(("colour", "shape")))
    assert [text.get_text() for text in both.get_yticklabels()] == ["flat", "round"]


def test_effect_of_one_of_several_targets() -> None:
    x, y = skewed_rows(50, n_targets=2)
    effect = small(depth=0).fit(x, y).effect(0, grid=3)
    ax = plot_effect(effect, target=1)
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_ydata()), effect.mean[:, 1])
    with pytest.raises(UserError, match="one of the 2 targets"):
        plot_effect(effect, target=2)


@pytest.mark.parametrize("n_inputs", [1, 2, 4])
def test_local_metric(n_inputs: int) -> None:
    x, y = make_rows(40, n_inputs)
    metric = small(depth=1).fit(x, y).local_metric(x)
    ax = plot_local_metric(metric)
    ax.figure.canvas.draw()
    if n_inputs == 1:
        np.testing.assert_allclose(
            np.sort(ax.lines[0].get_ydata()), np.sort(metric.length_scale[:, 0])
        )
    if n_inputs == 4:
        assert len(ax.get_yticklabels()) == 4


def make_report(new: ConformityScores) -> Any:
    reference = draw_scores(300, 99, n_targets=max(1, new.scores.shape[1]))
    return monitor_rows(reference, new, torch.Generator().manual_seed(0))


def panels(new: ConformityScores) -> list[Axes]:
    return plot_monitor(make_report(new), figure=Figure()).axes


def lines(ax: Axes) -> dict[str, list[float]]:
    return {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in ax.get_lines()}


def test_the_panels_show_what_the_report_says() -> None:
    report = make_report(draw_scores(200, shift=1.0, since=100))
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


def test_targets_have_their_own_lines() -> None:
    pit, _, evidence, _ = panels(draw_scores(50, n_targets=2))
    assert legend_labels(pit) == ["target 0", "target 1", "95 % by chance"]
    assert legend_labels(evidence) == ["inputs", "target 0", "target 1", "alarm"]
    new = draw_scores(50).without_targets()  # two panels are left
    evidence, distances = panels(new)
    assert legend_labels(evidence) == ["inputs", "alarm"]
    assert distances.get_yscale() == "linear"
    new.distance[3] = 1e90  # a wild row does not hide the others
    *_, distances = panels(new)
    assert distances.get_yscale() == "symlog"
    assert distances.get_ylim()[1] > 1e90
