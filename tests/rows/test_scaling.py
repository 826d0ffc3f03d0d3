from __future__ import annotations

import functools
import operator
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import normal, small_rows
from torch import Tensor

from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.rows import (
    Measure,
    Moments,
    Rows,
    Scaling,
    as_rows,
    column_median,
    column_width,
    learn_scaling,
    moments,
    share_spreads,
    tame,
    weight_unit,
)
from sswim.warps.output_warp import OutputMap


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30, 1e-160, 1e160])
def test_rows_of_any_scale_get_zero_mean_and_unit_spread(
    scale: float, generator: torch.Generator
) -> None:
    x, y = normal(generator, 50, 3) + 2, normal(generator, 50, 2) - 5
    rows = as_rows(scale * x, scale * y)
    standardised = learn_scaling(rows).rows(rows)
    for values in (standardised.inputs.mean, standardised.targets):
        assert values.mean(0).abs().max() < 1e-12
        assert torch.allclose(values.std(0, correction=0), torch.ones(1, dtype=torch.float64))


def test_scaling_is_undone(generator: torch.Generator) -> None:
    rows = small_rows(generator, uncertain=True, n_targets=2)
    scaling = learn_scaling(rows)
    back = scaling.original_warps(scaling.inputs(rows.inputs))
    for ours, theirs in zip(back.tensors(), rows.inputs.tensors(), strict=True):
        assert torch.allclose(ours, theirs)
    variance = normal(generator, len(rows), 2).square()
    standardised = scaling.targets(rows.targets)
    assert torch.allclose(scaling.original_targets(standardised), rows.targets)
    original = Density(Prediction(standardised, variance, variance), OutputMap(), scaling)
    assert torch.allclose(original.mean, rows.targets)
    latent = original.without_noise().observation_variance
    assert torch.allclose(latent.sqrt(), variance.sqrt() * scaling.target_spread)


def test_inputs_that_share_a_unit_share_a_spread(generator: torch.Generator) -> None:
    x = normal(generator, 50, 5) * torch.tensor([1.0, 3.0, 0.0, 10.0, 7.0])
    rows = as_rows(x, x[:, :1])
    own = learn_scaling(rows)
    shared = share_spreads(own, [(0, 1, 2)], moments(x, None))
    spread = x.std(0, correction=0)
    expected = (spread[:3].square().sum() / 3).sqrt()  # the third has none
    assert torch.allclose(shared.input_spread[:3], expected)
    assert torch.equal(shared.input_spread[3:], own.input_spread[3:])
    assert torch.equal(shared.input_mean, own.input_mean)
    alone = share_spreads(own, [(2,)], moments(x, None))  # constant
    assert torch.equal(alone.input_spread, own.input_spread)
    standardised = shared.inputs(rows.inputs).mean
    ours, theirs = (torch.pdist(each[:, :3]) for each in (standardised, x))
    assert torch.allclose(ours * expected, theirs)  # distances keep their proportions


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
    """Compare in units of each column: the spread of a constant column is rounding."""
    assert actual.weight == expected.weight
    assert torch.equal(actual.lowest, expected.lowest)
    assert torch.equal(actual.highest, expected.highest)
    for ours, theirs in ((actual.mean, expected.mean), (actual.spread, expected.spread)):
        assert torch.allclose(ours / expected.unit, theirs / expected.unit, rtol=1e-9, atol=1e-12)


def test_means_and_spreads_are_those_of_numpy(values: Tensor) -> None:
    found = moments(values, None)
    assert found.weight == 53
    assert np.allclose(found.mean / found.unit, (values / found.unit).mean(0), rtol=1e-12)
    spread = (values / found.unit).std(0, correction=0) * found.unit
    assert torch.allclose(found.spread[:3], spread[:3], rtol=1e-9, atol=0)
    assert found.spread[3] < 1e-15
    assert torch.equal(found.lowest, values.amin(0))
    assert torch.equal(found.highest, values.amax(0))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1, 7, 52, 53])
def test_moments_of_parts_add_up_in_any_order(
    weighted: bool, size: int, values: Tensor, weight: Tensor
) -> None:
    weights = [weight[i : i + size] if weighted else None for i in range(0, 53, size)]
    parts = [moments(part, w) for part, w in zip(values.split(size), weights, strict=True)]
    whole = moments(values, weight if weighted else None)
    assert_same(functools.reduce(operator.add, parts), whole)
    assert_same(functools.reduce(operator.add, reversed(parts)), whole)


def test_moments_count_weights_as_repeated_rows(values: Tensor, weight: Tensor) -> None:
    repeated = values.repeat_interleave(weight.to(torch.int64), dim=0)
    assert_same(moments(values, weight), moments(repeated, None))
    single = values[:, :1].float()  # summed in double
    assert_same(moments(single, None), moments(single.double(), None))


def test_no_rows_are_neutral(values: Tensor) -> None:
    nothing = moments(values[:0], None)
    assert nothing.weight == 0
    assert torch.equal(nothing.unit, torch.ones(4, dtype=torch.float64))
    some = moments(values, None)
    assert_same(some + nothing, some)
    assert_same(nothing + some, some)
    assert (nothing + nothing).weight == 0


def test_the_width_is_that_of_the_middle_half_and_ignores_a_few_far_values() -> None:
    values = np.arange(101.0)
    assert column_width(values) == pytest.approx(50.0)
    values[-1] = 1e12
    assert column_width(values) == pytest.approx(50.0)
    mostly_one = np.repeat([-2.0, 0.0], [15, 85])  # as wide as more of its values
    assert column_width(mostly_one) == pytest.approx(2.0)
    assert column_width(np.full(10, 3.0)) is None
    largest = np.finfo(np.float64).max
    values = np.repeat([-largest, largest], [40, 60])
    assert column_width(values) == largest
    assert column_median(values) == largest
    assert column_median(np.arange(6.0)) == 2.5


SHARES = 0.1 + np.random.default_rng(0).random(20)
POPULATION = np.array([1.0, 1200, 3500, 80_000, 15])


@pytest.mark.parametrize(
    ("weight", "unit"),
    [
        (None, 1),
        ([2.0, 2.0, 3.0, 5.0], 1),  # counts, though no row counts once
        ([4.0, 6.0, 10.0], 2),
        ([0.0, 2.0, 0.0, 4.0], 2),
        *((np.full(7, value), value) for value in (1.0, 1 / 3, 1e-5, 1e5, 1e-300, 1e300)),
        *((unit * np.array([1, 2, 3]), unit) for unit in (2.0, 0.5, 0.1, 1 / 7, 1e-3)),
        *((unit * np.array([3, 1, 1, 4]), unit) for unit in (2.0, 0.5, 0.1, 1 / 7, 1e-3)),
        *((scale * SHARES, scale * SHARES.mean()) for scale in (1.0, 1e6)),
        (POPULATION, POPULATION.mean()),  # large counts of distinct rows: shares of importance
    ],
)
def test_weights_have_a_common_divisor_or_their_mean_as_unit(weight: Any, unit: float) -> None:
    x = np.arange(4.0 if weight is None else len(weight))[:, None]
    assert weight_unit(as_rows(x, x, weight)) == pytest.approx(unit, rel=1e-9)


def test_large_counts_of_rows_that_share_inputs_are_counts() -> None:
    """Many observations at few inputs, given as counts of each value."""
    x = np.repeat(np.arange(5.0), 4)[:, None]
    y = np.tile(np.arange(4.0), 5)
    counts = np.arange(1.0, 21) * 10 + 1
    assert weight_unit(as_rows(x, y, counts)) == 1


def tamed(rows: Rows, names: tuple[str, ...] | None = None) -> Scaling:
    return tame(learn_scaling(rows), rows, moments(rows.inputs.mean, None), names)


@pytest.fixture
def inputs(generator: torch.Generator) -> Tensor:
    return 50 + 10 * normal(generator, 200, 3)


def as_it_is(x: Tensor) -> Scaling:
    rows = as_rows(x, x[:, 0])
    scaling = learn_scaling(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tame(scaling, rows, moments(x, None)) is scaling
    return scaling


def test_usual_columns_are_left_alone(inputs: Tensor) -> None:
    as_it_is(inputs)
    as_it_is((inputs / 10).exp())  # skewed
    as_it_is(torch.ones_like(inputs))
    flag = torch.zeros(200, 1, dtype=torch.float64)
    flag[3] = 1
    as_it_is(flag)
    flag[:10] = 1
    as_it_is(flag)


@pytest.mark.parametrize("wild", [1e12, -1e12, 1e300])
def test_one_wild_value_is_taken_as_the_farthest_usual_one(wild: float, inputs: Tensor) -> None:
    usual = as_it_is(inputs)
    x = inputs.clone()
    x[7, 1] = wild
    with pytest.warns(UserWarning, match="Column 1 of X has a value"):
        scaling = tamed(as_rows(x, inputs[:, 0]))
    with pytest.warns(UserWarning, match=r"Input 'b' has a value, .* mistake"):
        tamed(as_rows(x, inputs[:, 0]), ("a", "b", "c"))
    for name in ("input_mean", "input_spread"):
        ours, theirs = getattr(scaling, name), getattr(usual, name)
        assert torch.equal(ours[[0, 2]], theirs[[0, 2]])
        assert torch.allclose(ours, theirs, rtol=0.1)
    assert torch.equal(scaling.target_spread, usual.target_spread)
    assert scaling.input_low.isinf().tolist() == [True, False, True]
    others = torch.cat((x[:7], x[8:]))
    median = x[:, 1].median()
    reach = (others[:, 1] - median).abs().max()
    limit = median + reach if wild > 0 else median - reach
    back = scaling.original_warps(scaling.inputs(Measure(x))).mean
    assert back[7, 1].item() == pytest.approx(limit.item(), rel=0.05)
    kept = torch.arange(200) != 7
    assert torch.allclose(back[kept], x[kept])  # usual values are within the limits
