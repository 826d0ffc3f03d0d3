from __future__ import annotations

from typing import Any

import pytest
import torch
from builders.models import DENSITIES, normal, observations, small_model, small_rows

from sswim.members.model import log_precision, observe, row_features, warped_measures
from sswim.rows import Measure
from sswim.warps.noise_field import log_noise_ratio


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
@torch.no_grad()
def test_the_stack_has_a_measure_after_every_warp(depth: int, generator: torch.Generator) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, depth=depth)
    measures = warped_measures(model.factors()[0], rows.inputs)
    assert len(measures) == depth + 1
    assert measures[0] is rows.inputs
    for measure in measures[1:]:
        assert measure.variance is not None
        assert (measure.variance >= 0).all()


@pytest.mark.parametrize("density", DENSITIES.values(), ids=DENSITIES.keys())
@torch.no_grad()
def test_rows_become_features_warped_targets_and_noise(
    density: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator, n_targets=2, weighted=True)
    factors = small_model(rows, generator, **density).factors()[0]
    seen = observe(factors, rows)
    assert torch.equal(seen.features, row_features(factors, rows.inputs))
    targets, log_slope = factors.output.forward(rows.targets)
    assert torch.equal(seen.targets, targets)
    assert torch.equal(seen.log_slope, log_slope)
    assert seen.multiplicity is rows.weight
    if factors.noise is None:
        assert seen.log_precision is None
        assert seen.temper is None
        assert log_precision(factors, rows.inputs) is None
    else:
        assert seen.log_precision is not None
        assert torch.equal(seen.log_precision, -log_noise_ratio(factors.noise, rows.inputs))
        assert seen.temper is factors.noise.temper


def test_weights_are_multiplicities_times_tempered_precisions(generator: torch.Generator) -> None:
    features, targets = normal(generator, 5, 4), normal(generator, 5, 2)
    times, precision = normal(generator, 5).exp(), normal(generator, 5, 2)
    temper = torch.tensor([0.5, 0.0], dtype=torch.float64)
    plain = observations(features, targets)
    assert plain.weight() is None
    assert plain.log_weight() is None
    counted = observations(features, targets, times)
    assert counted.log_weight() is None
    assert torch.equal(counted.weight(), times[:, None])  # type: ignore[arg-type]
    noisy = observations(features, targets, None, precision)
    assert torch.equal(noisy.weight(), precision.exp())  # type: ignore[arg-type]
    tempered = observations(features, targets, times, precision, temper)
    assert torch.equal(tempered.log_weight(), temper * precision)  # type: ignore[arg-type]
    expected = times[:, None] * precision.exp() ** temper
    assert torch.allclose(tempered.weight(), expected, rtol=1e-14)  # type: ignore[arg-type]


def test_rows_with_another_number_of_inputs_are_refused(generator: torch.Generator) -> None:
    factors = small_model(small_rows(generator), generator).factors()[0]
    with pytest.raises(ValueError, match=r"Rows must have the model's 3 inputs\. Got 2\."):
        warped_measures(factors, Measure(normal(generator, 4, 2)))
