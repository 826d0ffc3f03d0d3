"""Tests of the scripts that measure monitoring: what they draw and print, never the delays."""

from __future__ import annotations

import math
from typing import Any

import monitor
import numpy as np
import pytest


def line(case: str, alarm: int | None, highest: float = 0.0) -> dict[str, Any]:
    return {"table": "made up", "case": case, "alarm": alarm, "false_log_evidence": highest}


@pytest.mark.parametrize("case", [monitor.NONE, *monitor.CASES, *monitor.SHIFTS])
def test_the_first_half_of_a_stream_never_drifts(case: str) -> None:
    source = monitor.synthetic_source()
    plain, drifting = (
        monitor.draw_stream(source, each, 0.2, np.random.default_rng(0))
        for each in (monitor.NONE, case)
    )
    for before, after in zip(plain, drifting, strict=True):
        np.testing.assert_array_equal(before[: monitor.CHANGE], after[: monitor.CHANGE])
    same = np.array_equal(plain[1][monitor.CHANGE :], drifting[1][monitor.CHANGE :])
    assert same == (case == monitor.NONE)


def test_shifted_rows_of_a_table_are_other_rows_of_it() -> None:
    x = np.random.default_rng(0).normal(size=(20_000, 1))
    source = monitor.real_source(x, x[:, 0])
    random = np.random.default_rng(1)
    for shift in (0.0, 0.5, 1.0):
        drawn, y = source.draw(random, 400, shift)
        assert abs(abs(drawn.mean()) - shift) < 0.2  # the sign of a component is arbitrary
        assert len(np.unique(y)) == 400
        np.testing.assert_array_equal(drawn[:, 0], y)


def test_delays_count_from_the_change() -> None:
    case = next(iter(monitor.CASES))
    found = [line(case, row) for row in (999, 1004, 1009, 1019, None)]
    found += [line(monitor.NONE, None, math.log(level)) for level in (2, 20, 200)]
    printed = monitor.table(found)
    assert f"| {case} | 10 / never |" in printed  # the alarm at row 999 was a false one
    assert "| none: alarms at 1% | 1 of 3 |" in printed
    assert "| none: alarms at 10% | 2 of 3 |" in printed
