from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from builders.models import SMALL, normal, small_model, small_rows

from sswim.kernels.features import Kernel
from sswim.members import Architecture, condition, enrich, start
from sswim.members.model import row_features, stack_models, warped_measures
from sswim.rows import Measure


@torch.no_grad()
def test_a_started_model_warps_nothing(generator: torch.Generator) -> None:
    x = normal(generator, 40, 3)
    model = start(Architecture(depth=2, n_frequencies=8, n_pseudo=6), x, 1, generator)
    measures = warped_measures(model.factors()[0], Measure(x))
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
    spread = torch.stack((x[:, 0].std(correction=0), torch.ones_like(x[0, 0])))
    assert torch.allclose(model.spectrum.log_length_scales.exp(), math.sqrt(2) * spread)
    for gp in model.warp_layers()[0].gps():
        assert ((gp.pseudo_inputs[:, 1] - 5).abs() < 1).all()


def test_the_generator_alone_decides_the_start(generator: torch.Generator) -> None:
    x = normal(generator, 30, 2)
    first, again, other = (
        start(SMALL, x, 1, torch.Generator().manual_seed(seed)).state_dict() for seed in (1, 1, 2)
    )
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


def test_signal_and_noise_start_at_given_values(generator: torch.Generator) -> None:
    x, values = normal(generator, 30, 2), torch.tensor([0.5, 3.0], dtype=torch.float64)
    model = start(SMALL, x, 2, generator, signal=values, noise=values.flip(0))
    assert torch.allclose(model.signal(), values)
    assert torch.allclose(model.noise(), values.flip(0))
    default = start(SMALL, x, 2, generator)
    assert torch.equal(default.signal(), torch.ones(2, dtype=torch.float64))
    assert torch.allclose(default.noise(), torch.full((2,), 0.1, dtype=torch.float64))


@torch.no_grad()
def test_a_model_of_normal_scores_starts_from_them(generator: torch.Generator) -> None:
    x = normal(generator, 400, 2).mul(2).exp()
    architecture = Architecture(
        n_frequencies=8, n_pseudo=100, inputs="normal-scores", noise="input-dependent"
    )
    model = start(architecture, x, 1, generator)
    factors = model.factors()[0]
    scored, top = warped_measures(factors, Measure(x))
    assert torch.allclose(scored.mean.std(0, correction=0), torch.ones(2, dtype=torch.float64))
    assert torch.equal(top.mean, scored.mean)
    two = torch.full((2,), 2.0, dtype=torch.float64)
    assert torch.allclose(model.spectrum.log_length_scales.exp(), two.sqrt())
    assert model.noise_field is not None  # of the raw inputs
    raw = model.noise_field.spectrum.log_length_scales.exp()
    assert torch.allclose(raw, two.sqrt() * x.std(0, correction=0))
    pseudo = model.warp_layers()[0].gps()[1].pseudo_inputs
    assert torch.cdist(pseudo, scored.mean).amin(-1).max() < 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"depth": 2, "inputs": "normal-scores"},
        {"depth": 1, "n_warp_frequencies": 4, "output_warp": "tanh", "noise": "input-dependent"},
        {"depth": 0},
    ],
    ids=str,
)
@torch.no_grad()
def test_an_enriched_model_differs_in_its_top_features_alone(
    changes: dict[str, Any], generator: torch.Generator
) -> None:
    rows = small_rows(generator)
    model = small_model(rows, generator, **changes)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    richer = enrich(model, 10, generator)
    assert richer.architecture.n_frequencies == 16
    assert richer.architecture.warp_frequencies == model.architecture.warp_frequencies
    state = richer.state_dict()
    assert state.keys() == before.keys()
    for name, tensor in before.items():
        assert torch.equal(model.state_dict()[name], tensor)
        assert torch.equal(state[name][: len(tensor)] if tensor.ndim else state[name], tensor)
    assert state["spectrum.unit_frequencies"].shape == (16, 3)
    for ours, theirs in zip(
        warped_measures(richer.factors()[0], rows.inputs),
        warped_measures(model.factors()[0], rows.inputs),
        strict=True,
    ):
        assert torch.equal(ours.mean, theirs.mean)
    features = row_features(richer.factors()[0], rows.inputs)
    assert features.shape[-1] == 32
    prediction = condition(richer, rows).predict(rows.inputs)
    few = condition(model, rows).predict(rows.inputs)
    assert not torch.allclose(prediction.mean, few.mean)


@pytest.mark.parametrize("kernel", ["rbf", "matern32"])
@torch.no_grad()
def test_an_enriched_model_is_closer_to_its_kernel(
    kernel: Kernel, generator: torch.Generator
) -> None:
    x = normal(generator, 50, 2)
    architecture = Architecture(depth=0, n_frequencies=16, kernel=kernel)
    model = start(architecture, x, 1, generator)
    scaled = x / model.spectrum.log_length_scales.exp()
    distance = torch.cdist(scaled, scaled)
    root = math.sqrt(3) * distance
    exact = (-0.5 * distance.square()).exp() if kernel == "rbf" else (1 + root) * (-root).exp()

    def error(n_more: int) -> float:
        found = enrich(model, n_more, generator) if n_more else model
        features = row_features(found.factors()[0], Measure(x))
        return (features @ features.mT - exact).square().mean().sqrt().item()

    assert error(2000) < 0.3 * error(0)


def test_a_batch_cannot_be_enriched(generator: torch.Generator) -> None:
    model = small_model(small_rows(generator), generator)
    with pytest.raises(ValueError, match="take it apart"):
        enrich(stack_models([model, model]), 3, generator)
