from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from builders.models import normal, small_rows

from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.rows.rows import Measure, as_rows
from sswim.rows.scaling import learn_scaling, moments, no_scaling, share_spreads
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


def test_weights_count_as_repeated_rows(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    times = torch.randint(0, 3, (len(rows),), generator=generator)
    weighted = as_rows(rows.inputs.mean, rows.targets, times)
    repeated = rows.map(lambda t: t.repeat_interleave(times, dim=0))
    ours, theirs = learn_scaling(weighted), learn_scaling(repeated)
    for mine, expected in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert torch.allclose(mine, expected, rtol=1e-13)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e12])
def test_a_constant_column_keeps_its_unit(value: float) -> None:
    x = torch.full((7, 1), value, dtype=torch.float64)
    scaling = learn_scaling(as_rows(x, x))
    assert scaling.input_spread.item() == 1
    assert scaling.inputs(Measure(x)).mean.abs().max() <= 1e-15 * value


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


def test_single_precision_inputs_stay_so(generator: torch.Generator) -> None:
    rows = small_rows(generator, dtype=torch.float32)
    assert learn_scaling(rows).rows(rows).inputs.mean.dtype == torch.float32


@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_divided_by_their_unit(weighted: bool, generator: torch.Generator) -> None:
    rows = small_rows(generator, weighted=weighted)
    scaling = learn_scaling(rows)
    assert (scaling.rows(rows).weight is None) == (not weighted)
    half = replace(scaling, weight_unit=torch.tensor(2.0, dtype=torch.float64)).rows(rows).weight
    assert half is not None
    weight = torch.ones(len(rows), dtype=torch.float64) if rows.weight is None else rows.weight
    assert torch.equal(half, weight / 2)


def test_inputs_beyond_the_limits_are_taken_as_these() -> None:
    x = torch.tensor([[-5.0, -5.0], [0.5, 0.5], [7.0, 7.0]], dtype=torch.float64)
    rows = as_rows(x, x[:, :1])
    low, high = (torch.tensor(ends, dtype=torch.float64) for ends in ([-1, -9], [1, 9]))
    limited = replace(no_scaling(rows), input_low=low, input_high=high)
    expected = torch.tensor([[-1.0, -5.0], [0.5, 0.5], [1.0, 7.0]], dtype=torch.float64)
    assert torch.equal(limited.inputs(Measure(x)).mean, expected)


def test_rows_that_are_standardised_already_are_left_alone(generator: torch.Generator) -> None:
    rows = small_rows(generator, n_targets=2, weighted=True, uncertain=True)
    for ours, theirs in zip(no_scaling(rows).rows(rows).tensors(), rows.tensors(), strict=True):
        assert torch.equal(ours, theirs)


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
    standardised = shared.inputs(rows.inputs).mean
    ours, theirs = (torch.pdist(each[:, :3]) for each in (standardised, x))
    assert torch.allclose(ours * expected, theirs)  # distances keep their proportions


def test_a_group_of_constant_inputs_keeps_its_unit() -> None:
    x = torch.ones(5, 3, dtype=torch.float64)
    own = learn_scaling(as_rows(x, x[:, :1]))
    shared = share_spreads(own, [(0, 1), (2,)], moments(x, None))
    assert shared.input_spread.tolist() == [1.0, 1.0, 1.0]
    assert share_spreads(own, [], moments(x, None)).input_spread.tolist() == [1.0, 1.0, 1.0]
