from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from builders.models import normal, random_warp, target_scaling

from sswim.ensemble.mixture import DensityBatches, Mixture, batch_densities, equal_weights
from sswim.members import density as density_module
from sswim.members.density import Density
from sswim.members.linear_regression import Prediction
from sswim.warps.output_warp import OutputMap

N_ROWS = 7
SCALING = target_scaling([10.0, -3.0], [2.0, 0.5])


def prediction(generator: torch.Generator, degrees: float | None = None) -> Prediction:
    latent = normal(generator, N_ROWS, 2).square() + 0.1
    many = None if degrees is None else torch.full((N_ROWS, 2), degrees, dtype=torch.float64)
    return Prediction(normal(generator, N_ROWS, 2), latent, latent + 0.3, many)


@pytest.fixture
def densities(generator: torch.Generator) -> list[Density]:
    """Members of every form, those of the same form not next to each other."""
    with torch.no_grad():
        maps = [
            random_warp(kind, 2, generator, n_targets=2, spread=0.4).condition()[0]
            for kind in ("sinh-arcsinh", "tanh", "sinh-arcsinh", "tanh")
        ]
    outputs = [*maps, OutputMap(), OutputMap(), maps[0]]
    degrees = [None, None, None, None, 9.0, None, 30.0]
    return [
        Density(prediction(generator, nu), output, SCALING)
        for nu, output in zip(degrees, outputs, strict=True)
    ]


@pytest.fixture
def weights(densities: list[Density], generator: torch.Generator) -> torch.Tensor:
    weights = torch.rand(len(densities), generator=generator, dtype=torch.float64)
    return weights / weights.sum()


@pytest.fixture
def batches(densities: list[Density], weights: torch.Tensor) -> DensityBatches:
    return batch_densities(densities, weights)


def test_members_of_the_same_form_are_in_one_batch(batches: DensityBatches) -> None:
    assert [len(each) for each in batches.weights] == [2, 2, 1, 1, 1]
    for density, weight in zip(batches.densities, batches.weights, strict=True):
        assert density.warped.mean.shape == (len(weight), N_ROWS, 2)


def test_batches_are_the_members_one_by_one(
    batches: DensityBatches,
    densities: list[Density],
    weights: torch.Tensor,
    generator: torch.Generator,
) -> None:
    def average(values: list[torch.Tensor]) -> torch.Tensor:
        return torch.einsum("m,mnt->nt", weights, torch.stack(values))

    y = SCALING.original_targets(normal(generator, N_ROWS, 2))
    mean = average([each.mean for each in densities])
    spread = [each.observation_variance + (each.mean - mean).square() for each in densities]
    assert torch.allclose(batches.moments()[..., 0], mean, rtol=1e-12)
    assert torch.allclose(batches.moments()[..., 1], average(spread), rtol=1e-12)
    noise = average([each.noise_variance for each in densities])
    assert torch.allclose(batches.noise_variance(), noise, rtol=1e-12)
    assert torch.allclose(batches.cdf(y), average([d.cdf(y) for d in densities]), rtol=1e-12)
    density = average([each.log_density(y).exp() for each in densities])
    assert torch.allclose(batches.log_density(y), density.log(), rtol=1e-10)


@pytest.mark.parametrize("n_members", [9, 42, 57])
def test_no_probability_is_above_one(n_members: int, densities: list[Density]) -> None:
    weights = torch.full((n_members,), 1 / n_members, dtype=torch.float64)  # a sum above one
    batches = batch_densities(densities[5:6] * n_members, weights)
    for far, probability in ((-1e300, 0.0), (1e300, 1.0)):
        cdf = batches.cdf(torch.full((N_ROWS, 2), far, dtype=torch.float64))
        assert ((cdf >= 0) & (cdf <= 1)).all()
        assert cdf[0, 0].item() == pytest.approx(probability)


def test_quantiles_invert_the_cumulative(batches: DensityBatches) -> None:
    levels = torch.tensor([1e-12, 1e-6, 0.05, 0.5, 0.95, 1 - 1e-6], dtype=torch.float64)
    for value, level in zip(batches.quantiles(levels).unbind(-1), levels.tolist(), strict=True):
        error = (batches.cdf(value) - level).abs().max().item()
        assert error < 1e-9 * min(level, 1 - level)


def test_quantiles_of_the_upper_tail_are_as_accurate_as_of_the_lower(
    densities: list[Density],
) -> None:
    """A symmetric mixture, whose quantiles lie symmetrically around its mean."""
    plain = replace(densities[5], scaling=target_scaling([0.0, 0.0], [1.0, 1.0]))
    mirrored = replace(plain, warped=replace(plain.warped, mean=-plain.warped.mean))
    both = batch_densities([plain, mirrored], equal_weights(2))
    levels = torch.tensor([2.0**-33, 2.0**-20, 0.25], dtype=torch.float64)
    lower, upper = both.quantiles(levels), both.quantiles(1 - levels)
    assert torch.allclose(lower, -upper, rtol=1e-11)


def test_quantiles_are_in_order(batches: DensityBatches) -> None:
    levels = torch.linspace(1e-4, 1 - 1e-4, 500, dtype=torch.float64)
    assert (batches.quantiles(levels).diff(dim=-1) > 0).all()


def test_quantiles_between_far_modes() -> None:
    """Between the modes the density is zero to rounding, and no Newton step leads anywhere."""
    mean = torch.tensor([[0.0], [0.0]], dtype=torch.float64)
    narrow = Prediction(mean, 0 * mean + 1e-6, 0 * mean + 1e-6)
    scaling = target_scaling([0.0], [1.0])
    members = [
        Density(replace(narrow, mean=mean + place), OutputMap(), scaling) for place in (0.0, 1000.0)
    ]
    mixture = batch_densities(members, torch.tensor([0.4, 0.6], dtype=torch.float64))
    levels = torch.tensor([0.1, 0.4, 0.41, 0.7], dtype=torch.float64)
    found = mixture.quantiles(levels)[0, 0]
    for level, value in zip(levels.tolist(), found, strict=True):
        assert mixture.cdf(value.expand(2, 1))[0, 0].item() == pytest.approx(level, abs=1e-10)
    assert found[0] < 0 < found[1] < found[2] < found[3]


def test_chunks_of_rows_do_not_change_results(
    densities: list[Density],
    weights: torch.Tensor,
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask() -> list[torch.Tensor]:
        fresh: list[Density] = [replace(density) for density in densities]  # nothing is cached
        mixture = Mixture(tuple(fresh), weights)
        y = SCALING.original_targets(torch.zeros(N_ROWS, 2, dtype=torch.float64))
        return [
            mixture.mean,
            mixture.observation_variance,
            mixture.noise_variance,
            mixture.log_density(y),
            mixture.cdf(y),
            mixture.quantiles([0.1, 0.9]),
            fresh[0].mean,
            fresh[1].observation_variance,
        ]

    whole = ask()
    monkeypatch.setattr(density_module, "NODE_VALUES", {"cpu": 21 * 2 * 7 * 3})
    for ours, theirs in zip(ask(), whole, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-11)
