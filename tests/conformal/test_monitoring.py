from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from builders.scores import draw_scores

from sswim.base.validation import UserError
from sswim.conformal import ConformityScores, monitor_rows


def monitor(new: ConformityScores, *, false_alarm: float = 0.01) -> Any:
    generator = torch.Generator().manual_seed(0)
    reference = draw_scores(900, 99, n_targets=max(1, new.scores.shape[1]))
    return monitor_rows(reference, new, generator, false_alarm=false_alarm)


def test_no_drift_is_no_alarm() -> None:
    report = monitor(draw_scores(600))
    assert report.says == "No sign of drift in 600 rows."
    assert (report.alarms, report.alarm_row, report.change_row) == ((), None, None)
    assert report.log_evidence.max() < math.log(100)
    assert report.pit_p_value > 0.01
    errors = (report.coverage.observed - report.coverage.expected) / report.coverage.error
    assert np.abs(errors).max() < 3
    assert 0.02 < report.share_beyond_95 < 0.08
    assert report.share_beyond_99 < 0.03


@pytest.mark.parametrize("n_folds", [1, 3])
def test_drifting_targets_are_noticed(n_folds: int) -> None:
    new = draw_scores(600, shift=1.0, since=300)
    reference = draw_scores(900, 99, n_folds=n_folds)
    new = replace(new, fold=new.fold % n_folds)
    report: Any = monitor_rows(reference, new, torch.Generator().manual_seed(0))
    (alarm,) = report.alarms
    assert (alarm.part, alarm.target, alarm.change) == ("targets", None, "higher")
    assert report.alarm_row == alarm.row
    assert 300 <= alarm.row < 360
    assert abs(alarm.since - 300) < 20
    assert report.says == (
        f"The targets drifted (higher than predicted): noticed at row {alarm.row}, probably since "
        f"row {alarm.since}."
    )
    assert report.pit_distance > 0.1


def test_the_first_alarm_is_where_the_evidence_reaches_the_threshold() -> None:
    report = monitor(draw_scores(600, shift=0.6, farther=2.0, since=200), false_alarm=0.05)
    assert [alarm.part for alarm in report.alarms] == ["distances", "targets"]
    assert report.alarms[0].row < report.alarms[1].row
    assert report.says.count("drifted") == 2
    assert report.alarm_row == np.flatnonzero(report.log_evidence >= -math.log(0.05))[0]
    parts = np.column_stack((report.input_log_evidence, report.target_log_evidence))
    np.testing.assert_array_equal(parts.max(1), report.log_evidence)


def test_drifting_inputs_are_noticed_without_targets() -> None:
    report = monitor(draw_scores(400, farther=0.8, since=200).without_targets())
    (alarm,) = report.alarms
    assert (alarm.part, alarm.change) == ("distances", "higher")
    assert report.says.startswith("The inputs drifted (farther from the rows seen): noticed at")
    found = (report.pit, report.pit_distance, report.coverage, report.target_log_evidence)
    assert found == (None, None, None, None)
    assert report.share_beyond_95 > 0.3


def test_inputs_with_other_predictions_are_noticed_with_and_without_targets() -> None:
    new = draw_scores(600, higher=1.0, since=200)
    for rows in (new, new.without_targets()):
        report = monitor(rows)
        (alarm,) = report.alarms
        assert (alarm.part, alarm.change) == ("predictions", "higher")
        assert report.says.startswith("The inputs drifted (more of those with high predictions)")
        assert 200 <= alarm.row < 300


def test_the_target_that_drifted_is_named() -> None:
    new = draw_scores(500, n_targets=3)
    new.scores[200:, 1] -= 1.5
    report = monitor(new)
    (alarm,) = report.alarms
    assert (alarm.target, alarm.change) == (1, "lower")
    assert report.says.startswith("Target 1 drifted (lower than predicted)")
    assert report.pit.shape == (500, 3)


def test_far_rows_are_named_and_counted() -> None:
    new = draw_scores(100)
    new.distance[[70, 30]] = torch.tensor([9.0, 8.0], dtype=torch.float64)
    report = monitor(new)
    assert report.farthest_rows[:2].tolist() == [70, 30]
    assert len(report.farthest_rows) == 10
    assert report.distance_95 == pytest.approx(0.95, abs=0.02)
    assert report.distance_99 == pytest.approx(0.99, abs=0.01)
    assert monitor(draw_scores(1)).says == "No sign of drift in 1 row."


def test_coverage_counts_targets_within_central_intervals() -> None:
    new = draw_scores(200)
    coverage = monitor(new).coverage
    pit = new.pit[:, 0].numpy()
    for level, observed in zip(coverage.nominal, coverage.observed, strict=True):
        inside = (pit >= 0.5 - 0.5 * level) & (pit <= 0.5 + 0.5 * level)
        assert observed == pytest.approx(inside.mean())
    expected = coverage.expected * (1 - coverage.expected) * (1 / 200 + 1 / 900)
    np.testing.assert_allclose(coverage.error, np.sqrt(expected))


def test_false_alarms_stay_rare_with_small_folds() -> None:
    found = []
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        reference, new = draw_scores(30, 1000 + seed), draw_scores(200, 2000 + seed)
        found.append(monitor_rows(reference, new, generator, false_alarm=0.1).alarm_row)
    assert sum(row is not None for row in found) <= 11  # three standard deviations above five
    for false_alarm in (0.0, 1.0, float("nan")):
        with pytest.raises(UserError, match="false_alarm must lie between 0 and 1"):
            monitor(draw_scores(10), false_alarm=false_alarm)
