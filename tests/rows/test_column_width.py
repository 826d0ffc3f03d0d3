"""The width of a column."""

from __future__ import annotations

import numpy as np
import pytest

from sswim.rows.scaling import column_median, column_width


def test_the_width_is_that_of_the_middle_half_and_ignores_a_few_far_values() -> None:
    values = np.arange(101.0)
    assert column_width(values) == pytest.approx(50.0)
    values[-1] = 1e12
    assert column_width(values) == pytest.approx(50.0)


def test_a_column_of_mostly_one_value_is_as_wide_as_more_of_its_values() -> None:
    values = np.zeros(100)
    values[:15] = -2.0
    assert column_width(values) == pytest.approx(2.0)


def test_the_largest_numbers_have_a_width_and_a_median() -> None:
    largest = np.finfo(np.float64).max
    values = np.repeat([-largest, largest], [40, 60])
    assert column_width(values) == largest
    assert column_median(values) == largest
    assert column_median(np.arange(6.0)) == 2.5


def test_a_constant_column_has_no_width() -> None:
    assert column_width(np.full(10, 3.0)) is None
