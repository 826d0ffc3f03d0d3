"""Means of groups of rows, which charts of residuals draw."""

from __future__ import annotations

import numpy as np
import pytest

from sswim.report.scores import group_means


def test_bins_have_means_and_standard_errors() -> None:
    random = np.random.default_rng(0)
    x, y = random.uniform(size=600), random.normal(size=600)
    x[:40] = np.nan
    places, means, errors = group_means(x, y)
    assert len(places) == 12
    assert np.all(np.diff(places) > 0)
    assert errors == pytest.approx(np.full(12, 1 / np.sqrt(560 / 12)), rel=0.5)
    assert means.mean() == pytest.approx(y[40:].mean(), abs=0.01)


def test_ties_fall_into_one_bin_and_few_rows_into_none() -> None:
    x = np.array([0.0] * 50 + [1.0] * 50)
    places, means, _ = group_means(x, x)
    assert places.tolist() == means.tolist() == [0, 1]
    assert group_means(np.zeros(2), np.zeros(2)).shape == (3, 0)
    assert group_means(np.full(9, np.nan), np.zeros(9)).shape == (3, 0)


def test_levels_have_means() -> None:
    places, means, errors = group_means(
        np.array([0.0, 0, 0, 2, 2, 2, 1]), np.arange(7.0), is_level=True
    )
    assert places.tolist() == [0, 2]  # a level of one row has none
    assert means.tolist() == [1, 4]
    assert errors == pytest.approx(1 / np.sqrt(3))
