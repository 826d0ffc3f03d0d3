from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.rows.scaling import Moments, moments

SCALES = torch.tensor([1.0, 1e-160, 1e160, 0.0], dtype=torch.float64)
SHIFTS = torch.tensor([1e6, 0.0, 0.0, 0.1], dtype=torch.float64)


@pytest.fixture
def values(generator: torch.Generator) -> Tensor:
    """Columns of very different sizes; the last is constant."""
    return normal(generator, 53, 4) * SCALES + SHIFTS


@pytest.fixture
def weight(generator: torch.Generator) -> Tensor:
    """Multiplicities of rows, some of them zero."""
    return torch.randint(0, 4, (53,), generator=generator).to(torch.float64)


def assert_same(actual: Moments, expected: Moments) -> None:
    for ours, theirs in zip(actual.tensors(), expected.tensors(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-9, atol=1e-300)


def test_means_and_spreads_are_those_of_numpy(values: Tensor) -> None:
    found = moments(values, None)
    assert found.weight == 53
    assert np.allclose(found.mean / found.unit, (values / found.unit).mean(0), rtol=1e-12)
    spread = (values / found.unit).std(0, correction=0) * found.unit
    assert torch.allclose(found.spread[:3], spread[:3], rtol=1e-9, atol=0)
    assert found.spread[3] < 1e-15
    assert torch.equal(found.largest, values.abs().amax(0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1, 7, 52, 53])
def test_moments_of_parts_add_up_in_any_order(
    weighted: bool, size: int, values: Tensor, weight: Tensor
) -> None:
    weights = [weight[i : i + size] if weighted else None for i in range(0, 53, size)]
    parts = [moments(part, w) for part, w in zip(values.split(size), weights, strict=True)]
    whole = moments(values, weight if weighted else None)
    assert_same_but_for_rounding(functools.reduce(operator.add, parts), whole)
    assert_same_but_for_rounding(functools.reduce(operator.add, reversed(parts)), whole)


def assert_same_but_for_rounding(actual: Moments, expected: Moments) -> None:
    """Compare in units of each column: the spread of a constant column is rounding."""
    assert actual.weight == expected.weight
    assert torch.equal(actual.largest, expected.largest)
    for ours, theirs in ((actual.mean, expected.mean), (actual.spread, expected.spread)):
        assert torch.allclose(ours / expected.unit, theirs / expected.unit, rtol=1e-9, atol=1e-12)


def test_weights_count_as_repeated_rows(values: Tensor, weight: Tensor) -> None:
    repeated = values.repeat_interleave(weight.to(torch.int64), dim=0)
    assert_same_but_for_rounding(moments(values, weight), moments(repeated, None))


def test_rows_without_weight_do_not_count(values: Tensor) -> None:
    weight = torch.ones(53, dtype=torch.float64)
    weight[5] = 0
    others = torch.cat((values[:5], values[6:]))
    assert_same_but_for_rounding(moments(values, weight), moments(others, None))


def test_no_rows_are_neutral(values: Tensor) -> None:
    nothing = moments(values[:0], None)
    assert nothing.weight == 0
    assert torch.equal(nothing.unit, torch.ones(4, dtype=torch.float64))
    some = moments(values, None)
    assert_same(some + nothing, some)
    assert_same(nothing + some, some)
    assert (nothing + nothing).weight == 0


def test_single_precision_is_summed_in_double(values: Tensor) -> None:
    single = values[:, :1].float()
    assert moments(single, None).mean.dtype == torch.float64
    assert_same(moments(single, None), moments(single.double(), None))
