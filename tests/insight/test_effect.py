"""Effects of columns, and the grids that they are set to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from builders.estimators import skewed_rows, small

from sswim.base.validation import UserError
from sswim.insight import InputColumn, NumberInput, average_function, common_levels, spaced_grid

SETTINGS: dict[str, dict[str, Any]] = {
    "features": {"depth": 1},
    "output warp": {"depth": 0, "output_warp": "sinh-arcsinh"},
    "neighbours": {"depth": 1, "n_neighbors": 12},
    "mixture": {"depth": 0, "n_members": 3},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_moments_are_those_of_drawn_functions(name: str) -> None:
    """The average of drawn functions over rows, by Monte Carlo."""
    model = small(max_iter=30, **SETTINGS[name]).fit(*skewed_rows(80))
    rows = skewed_rows(15, seed=4)[0]
    sets = []
    for value in (-1.0, 3.0):
        changed = rows.copy()
        changed[:, 1] = value
        sets.append(torch.from_numpy(changed))
    found = average_function(model._ensemble, sets)
    mean, deviation = found.mean[:, 0], found.standard_deviation[:, 0]
    draws = model.sample_paths(1500, random_state=1)(torch.stack(sets)).mean(-1)  # (n, G)
    error = 4 * deviation / len(draws) ** 0.5
    assert ((mean - draws.mean(0)).abs() < error).all()
    torch.testing.assert_close(draws.std(0), deviation, rtol=0.1, atol=1e-3)
    for level in (0.1, 0.5, 0.9):
        below = (draws <= found.quantile(level)[:, 0]).double().mean(0)
        torch.testing.assert_close(below, torch.full_like(below, level), rtol=0, atol=0.05)


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
    values = np.array(["b", "b", "c", "a", "c", "b"], dtype=object)
    assert common_levels(["a", "b", "c"], values, 2).tolist() == ["b", "c"]
    assert common_levels(["a", "b", "c"], values, 5).tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("grid", [[np.nan], [np.inf, 1.0], [], [[1.0]], 3.0, ["a"], None])
def test_grids_of_numbers_are_checked(grid: object) -> None:
    with pytest.raises(UserError, match="The grid of column 'size' must"):
        NumberInput("size", (0,)).check(grid)


def test_variance_is_not_the_mean_of_variances() -> None:
    model = small(max_iter=30, depth=0).fit(*skewed_rows(80))
    points = torch.from_numpy(skewed_rows(30, seed=4)[0])
    [[variance]] = average_function(model._ensemble, [points]).observation_variance
    posterior = model.posterior(points)
    independent = posterior.variance.mean() / len(points)
    assert independent < variance < posterior.variance.mean()
    ones = np.full(30, 1 / 30)
    np.testing.assert_allclose(variance, ones @ posterior.covariance.numpy() @ ones, rtol=1e-9)
