from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.models import normal

from sswim.rows.rows import row_keys
from sswim.rows.summary import sample_keys


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_rows_have_equal_keys_and_others_do_not(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    values = normal(generator, 500, 3).to(dtype)
    again = torch.randint(0, 500, (300,), generator=generator)
    assert torch.equal(row_keys(values[again]), row_keys(values)[again])
    assert len(row_keys(values).unique()) == 500


def test_rows_that_are_almost_equal_have_other_keys() -> None:
    one = torch.ones(1, 2, dtype=torch.float64)
    for column in range(2):
        other = one.clone()
        other[0, column] += torch.finfo(torch.float64).eps
        assert row_keys(other) != row_keys(one)


def test_the_order_of_columns_matters() -> None:
    values = torch.tensor([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    assert len(row_keys(values).unique()) == 3


def test_zeros_of_both_signs_are_equal() -> None:
    values = torch.tensor([[0.0, -0.0], [-0.0, 0.0]], dtype=torch.float64)
    first, second = row_keys(values)
    assert first == second


def test_small_integers_do_not_collide() -> None:
    steps = torch.arange(300, dtype=torch.float64)
    grid = torch.cartesian_prod(steps, steps)
    assert len(row_keys(grid).unique()) == len(grid)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_bit_of_the_keys_is_one_half_of_the_time(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    keys = row_keys(torch.arange(4000, dtype=dtype)[:, None])
    bits = (keys[:, None] >> torch.arange(64)) & 1
    assert (bits.double().mean(0) - 0.5).abs().max() < 0.05


def test_keys_are_those_of_the_sample_of_rows() -> None:
    """Both hash integers by SplitMix64, but row numbers are multiplied rather than added."""
    numbers = np.arange(1, 50)
    increment = -0x61C8864680B583EB
    as_bits = torch.from_numpy(numbers * np.int64(increment)) - increment
    keys = row_keys(as_bits.view(torch.float64)[:, None])
    assert np.array_equal(keys.numpy().view(np.uint64), sample_keys(numbers))


def test_no_columns_and_no_rows() -> None:
    assert row_keys(torch.zeros(3, 0, dtype=torch.float64)).tolist() == [0, 0, 0]
    assert len(row_keys(torch.zeros(0, 3, dtype=torch.float64))) == 0
