from __future__ import annotations

import numpy as np
import pytest

from sswim.base.validation import UserError
from sswim.insight.effect import InputColumn, NumberInput, common_levels, spaced_grid


def test_number_is_put_into_its_place() -> None:
    column = NumberInput("size", (1, 2))
    assert isinstance(column, InputColumn)
    rows = np.arange(12.0).reshape(3, 4)
    changed = column.put(rows, 5.0)
    np.testing.assert_array_equal(changed[:, 1:3], [[5.0, 0.0]] * 3)  # known, and so not missing
    np.testing.assert_array_equal(changed[:, [0, 3]], rows[:, [0, 3]])
    np.testing.assert_array_equal(column.values(rows), rows[:, 1])
    assert rows[0, 1] == 1  # a copy was changed


def test_grids_have_all_values_or_most_of_their_range() -> None:
    np.testing.assert_array_equal(spaced_grid(np.array([3.0, 1, 1, 2]), 5), [1, 2, 3])
    values = np.linspace(0, 1, 1001)
    np.testing.assert_allclose(spaced_grid(values, 3), [0.025, 0.5, 0.975])
    rare = np.concatenate((np.zeros(1000), np.arange(1.0, 11)))
    np.testing.assert_allclose(spaced_grid(rare, 3), [0, 5, 10])


def test_common_levels_keep_their_order() -> None:
    values = np.array(["b", "b", "c", "a", "c", "b"], dtype=object)
    assert common_levels(["a", "b", "c"], values, 2).tolist() == ["b", "c"]
    assert common_levels(["a", "b", "c"], values, 5).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("grid", [[np.nan], [np.inf, 1.0], [], [[1.0]], 3.0, ["a"], None])
def test_grids_that_cannot_be(grid: object) -> None:
    with pytest.raises(UserError, match="The grid of column 'size' must"):
        NumberInput("size", (0,)).check(grid)
