"""Tests of the benchmark of conformal intervals: its jobs, scores and tables, without a fit."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pytest
from conformal import binomial_error, score, summarise, tables, wanted
from conformal_methods import FITS, GROUPS, METHODS, SYNTHETIC, Case, Rows, make_rows


def made_up_line(name: str, repeat: int, method: str, coverage: float) -> dict[str, Any]:
    """Return a made-up line of results, with the same coverage and width at all levels."""
    by_level = dict.fromkeys(("0.5", "0.8", "0.9", "0.95"), coverage)
    width = dict.fromkeys(by_level, 2.0)
    return {
        **{"set": name, "n_train": 100, "repeat": repeat, "method": method},
        **{"coverage": by_level, "width": width, "n_test": 50, "n_distinct": 75},
        **{"group_coverage": [by_level] * 3, "group_width": [width] * 3},
        **{"fit_seconds": 1.0, "predict_seconds": 0.1},
    }


def test_scores_are_shares_inside_and_widths_in_units() -> None:
    y = np.array([0.0, 1.0, 2.0, 3.0])
    groups = np.array([0, 0, 1, 1])
    rows = Rows(y[:, None], y, y[:, None], y, 2.0, None, groups, groups)
    half = np.array([0.5, 1.5, 2.5, 3.5])[:, None] * np.ones(4)
    found = score(rows, (-half, half))
    assert found["coverage"] == {"0.5": 0.25, "0.8": 0.5, "0.9": 0.75, "0.95": 1.0}
    assert found["width"] == {"0.5": 0.5, "0.8": 1.5, "0.9": 2.5, "0.95": 3.5}
    assert [each["0.8"] for each in found["group_coverage"]] == [1.0, 0.0]


@pytest.mark.parametrize("name", [*SYNTHETIC, GROUPS])
def test_synthetic_rows_differ_between_repeats_alone(name: str) -> None:
    first, again, other = (make_rows(Case(name, 20, repeat), 10) for repeat in (0, 0, 1))
    assert len(first.train_y) == 20
    np.testing.assert_array_equal(first.test_y, again.test_y)
    assert not np.array_equal(first.test_y, other.test_y)


def test_jobs_are_within_the_given_limits() -> None:
    given = argparse.Namespace(
        data=["mcycle", *SYNTHETIC, GROUPS], fits=list(FITS), max_repeats=3, max_train=300
    )
    jobs = list(wanted(given))
    assert len(jobs) == len(set(jobs))
    assert max(job.case.n_train for job in jobs) == 300
    assert {job.case.repeat for job in jobs} == {0, 1, 2}
    assert {job.fit for job in jobs if job.case.set == GROUPS} == {"wrong", "calibrated"}
    assert all(job.seconds > 0 for job in jobs)


def test_test_rows_that_splits_share_count_once() -> None:
    line = made_up_line("mcycle", 0, "default", 0.9)
    assert binomial_error(line, 1) == pytest.approx(np.sqrt(0.09 / 50))
    assert binomial_error(line, 20) == pytest.approx(np.sqrt(0.09 / 75))
    assert binomial_error(line | {"n_distinct": None}, 20) == pytest.approx(np.sqrt(0.09 / 1000))


def test_tables_average_over_repeats_and_count_a_repeated_line_once() -> None:
    methods = [method for names in METHODS.values() for method in names]
    lines = [
        made_up_line(name, repeat, method, 0.8 + 0.1 * repeat)
        for name in ("mcycle", "t(2) noise", GROUPS)
        for method in methods
        for repeat in (0, 1)
    ]
    found = list(tables([*lines, lines[0], lines[0]]))
    [mcycle] = [line for line in found if line.startswith("| mcycle")]
    assert mcycle == f"| mcycle | 100 | 2 | {'85.0 (2) | ' * len(methods)}± 3.5 |"
    [synthetic] = [line for line in found if line.startswith("| t(2) noise")]
    assert synthetic.count("85.0 ± 5.0 (2)") == len(methods)
    assert sum(line.startswith("**") for line in found) == 5
    assert list(tables(summarise(lines))) == found
    many = [line | {"n_test": 1000} for line in lines]
    assert "| default: its own | 1.0 | 0.10 |" in list(tables(many))
