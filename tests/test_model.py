from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers import SMALL, normal, small_model, small_rows, unchecked

from sswim.features import expected_features
from sswim.measure import Measure
from sswim.model import Architecture, row_features, start, warped


@torch.no_grad()
def test_depth_zero_is_the_stationary_ssgp(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, depth=0)
    factors, prior = model.condition()
    assert prior.warps == 0
    assert prior.density == 0
    expected = expected_features(model.spectrum.frequencies(), rows.inputs)
    assert torch.equal(row_features(factors, rows.inputs), expected)


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@torch.no_grad()
def test_the_stack_has_a_measure_after_every_warp(depth: int, generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, depth=depth)
    measures = warped(model.condition()[0], rows.inputs)
    assert len(measures) == depth + 1
    assert measures[0] is rows.inputs
    for measure in measures[1:]:
        assert measure.variance is not None
        assert (measure.variance >= 0).all()


@torch.no_grad()
def test_a_started_model_warps_nothing(generator: torch.Generator) -> None:
    x = normal(generator, 40, 3)
    model = start(Architecture(depth=2, n_frequencies=8, n_pseudo=6), x, 1, generator)
    measures = warped(model.condition()[0], Measure(x))
    assert torch.equal(measures[-1].mean, x)


def test_length_scales_start_in_units_of_the_inputs_spread(generator: torch.Generator) -> None:
    x = normal(generator, 500, 2) * torch.tensor([1.0, 10.0], dtype=torch.float64)
    spread = x.std(0, correction=0)
    default = start(SMALL, x, 1, generator).spectrum.log_length_scales.exp()
    assert torch.allclose(default, math.sqrt(2) * spread)
    short = start(SMALL, x, 1, generator, length_scale=0.1).spectrum.log_length_scales.exp()
    assert torch.allclose(short, 0.1 * spread)


def test_a_constant_column_does_no_harm(generator: torch.Generator) -> None:
    x = normal(generator, 30, 2)
    x[:, 1] = 5.0
    model = start(SMALL, x, 1, generator)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_the_generator_alone_decides_the_start(generator: torch.Generator) -> None:
    x = normal(generator, 30, 2)
    first, again, other = (
        start(SMALL, x, 1, torch.Generator().manual_seed(seed)).state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_the_state_dict_is_all_there_is(generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator)
    copy = type(model)(model.architecture, model.n_inputs, model.n_targets)
    copy.load_state_dict(model.state_dict())
    ours, theirs = (row_features(m.condition()[0], rows.inputs) for m in (copy, model))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": -1}, "at least"),
        ({"n_frequencies": 0}, "at least"),
        ({"n_pseudo": 0}, "at least"),
        ({"n_output_terms": 0}, "at least 1. Got n_output_terms=0"),
        ({"n_noise_frequencies": 0}, "at least 1. Got .*n_noise_frequencies=0"),
        ({"output_warp": "log"}, r"output_warp must be one of .*'tanh'.* Got 'log'"),
        ({"noise": "none"}, r"noise must be one of .*'input-dependent'.* Got 'none'"),
        ({"kernel": "cosine"}, "kernel must be one of"),
        ({"draw": "halton"}, "draw must be one of"),
        ({"pseudo_prior": "flat"}, r"pseudo_prior must be one of .*'whitened'.* Got 'flat'"),
    ],
)
def test_impossible_architectures_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unchecked(Architecture, **change)
