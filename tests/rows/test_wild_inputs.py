from __future__ import annotations

import warnings

import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.rows.rows import Measure, Rows, as_rows
from sswim.rows.scaling import Scaling, learn_scaling, tame


def tamed(
    rows: Rows, names: tuple[str, ...] | None = None, everything: Tensor | None = None
) -> Scaling:
    x = rows.inputs.mean if everything is None else everything
    return tame(learn_scaling(rows), rows, x.amin(0), x.amax(0), names)


@pytest.fixture
def inputs(generator: torch.Generator) -> Tensor:
    return 50 + 10 * normal(generator, 200, 3)


def as_it_is(x: Tensor) -> Scaling:
    rows = as_rows(x, x[:, 0])
    scaling = learn_scaling(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tame(scaling, rows, x.amin(0), x.amax(0)) is scaling
    return scaling


def test_usual_columns_are_left_alone(inputs: Tensor) -> None:
    as_it_is(inputs)
    as_it_is((inputs / 10).exp())  # skewed
    as_it_is(inputs.clamp(max=100) * 0 + 1)  # constant


def test_a_rare_flag_is_not_wild(inputs: Tensor) -> None:
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
    standardised = scaling.inputs(Measure(x)).mean[7, 1]
    expected = (limit - scaling.input_mean[1]) / scaling.input_spread[1]
    assert standardised.item() == pytest.approx(expected.item(), rel=0.05)


def test_usual_values_are_within_the_limits(inputs: Tensor) -> None:
    x = inputs.clone()
    x[7, 1] = 1e12
    with pytest.warns(UserWarning, match="Column 1"):
        scaling = tamed(as_rows(x, inputs[:, 0]))
    kept = torch.arange(200) != 7
    standardised = scaling.inputs(Measure(x)).mean
    back = standardised * scaling.input_spread + scaling.input_mean
    assert torch.allclose(back[kept], x[kept])


def test_names_are_told(inputs: Tensor) -> None:
    x = inputs.clone()
    x[0, 2] = -1e9
    with pytest.warns(UserWarning, match="Input 'c' has a value, -1e\\+09, .* mistake"):
        tamed(as_rows(x, inputs[:, 0]), ("a", "b", "c"))


def test_a_wild_value_outside_the_sample_is_found(inputs: Tensor) -> None:
    everything = torch.cat((inputs, inputs[:1] + 1e10))
    rows = as_rows(inputs, inputs[:, 0])
    with pytest.warns(UserWarning, match="of X has a value, 1e\\+10") as told:
        scaling = tamed(rows, everything=everything)
    assert len(told) == 3
    assert (scaling.inputs(Measure(everything)).mean.abs() < 10).all()


def test_a_column_that_is_mostly_one_value_may_have_a_wild_one(inputs: Tensor) -> None:
    x = torch.zeros(200, 1, dtype=torch.float64)
    x[:30, 0] = inputs[:30, 0]  # one in seven is not zero
    as_it_is(x)
    x[0] = 1e12
    with pytest.warns(UserWarning, match="Column 0"):
        scaling = tamed(as_rows(x, inputs[:, 0]))
    assert scaling.input_high.item() < 100
