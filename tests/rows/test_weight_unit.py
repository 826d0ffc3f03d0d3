from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from builders.models import normal

from sswim.rows.rows import Rows, as_rows
from sswim.rows.scaling import weight_unit


def weighted(weight: Any) -> Rows:
    """Make rows with inputs of their own."""
    x = np.arange(len(weight), dtype=float)[:, None]
    return as_rows(x, x, weight)


def test_rows_without_weights_count_once(generator: torch.Generator) -> None:
    x = normal(generator, 5, 2)
    assert weight_unit(as_rows(x, x)) == 1


@pytest.mark.parametrize("value", [1.0, 2.0, 1 / 3, 1e-5, 1e5, 1e-300, 1e300])
def test_equal_weights_are_their_unit(value: float) -> None:
    assert weight_unit(weighted(np.full(7, value))) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("unit", [1.0, 2.0, 0.5, 0.1, 1 / 7, 1e-3])
@pytest.mark.parametrize("counts", [[1, 2, 3], [3, 1, 1, 4]])
def test_counts_are_found_in_any_unit(counts: list[int], unit: float) -> None:
    assert weight_unit(weighted(unit * np.array(counts))) == pytest.approx(unit, rel=1e-9)


def test_integers_are_counts_though_no_row_counts_once() -> None:
    assert weight_unit(weighted([2.0, 2.0, 3.0, 5.0])) == 1


def test_counts_with_a_common_divisor_are_divided_by_it() -> None:
    assert weight_unit(weighted([4.0, 6.0, 10.0])) == 2


def test_rows_that_do_not_count_have_no_influence() -> None:
    assert weight_unit(weighted([0.0, 2.0, 0.0, 4.0])) == 2


def test_weights_that_are_no_multiples_have_their_mean_as_unit(generator: torch.Generator) -> None:
    weight = 0.1 + torch.rand(20, generator=generator, dtype=torch.float64)
    assert weight_unit(weighted(weight)) == pytest.approx(weight.mean().item())
    assert weight_unit(weighted(1e6 * weight)) == pytest.approx(1e6 * weight.mean().item())


def test_large_counts_of_distinct_rows_are_shares_of_importance() -> None:
    population = np.array([1.0, 1200, 3500, 80_000, 15])
    assert weight_unit(weighted(population)) == pytest.approx(population.mean())


def test_large_counts_of_rows_that_share_inputs_are_counts() -> None:
    """Many observations at few inputs, given as counts of each value."""
    x = np.repeat(np.arange(5.0), 4)[:, None]
    y = np.tile(np.arange(4.0), 5)
    counts = np.arange(1.0, 21) * 10 + 1
    assert weight_unit(as_rows(x, y, counts)) == 1
