from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from builders.models import normal, random_warp, target_scaling
from torch import Tensor

from sswim.ensemble import Mixture
from sswim.ensemble.mixture import equal_weights, mix
from sswim.members import Prediction
from sswim.members import density as density_module
from sswim.members.density import Density
from sswim.warps import OutputMap

N_ROWS = 7
SCALING = target_scaling([10.0, -3.0], [2.0, 0.5])
PROBABILITIES = (1e-12, 1e-6, 0.05, 0.5, 0.95, 1 - 1e-6)
NOISE = 0.3
"""Variance of the noise of z."""

Form = tuple[str, float | None]
FORMS: dict[str, list[Form]] = {
    "gaussian": [("none", None)] * 3,
    "warped": [("none", None), ("sinh-arcsinh", None), ("tanh", None)],
    "student-t": [("none", None), ("none", 9.0), ("sinh-arcsinh", 30.0)],
    "all": [
        ("sinh-arcsinh", None),
        ("tanh", None),
        ("sinh-arcsinh", None),
        ("tanh", None),
        ("none", 9.0),
        ("none", None),
        ("sinh-arcsinh", 30.0),
    ],
}
"""Output warp and degrees of freedom of every member; equal ones are not side by side."""


def make_density(generator: torch.Generator, form: Form) -> Density:
    kind: Any = form[0]
    degrees = None if form[1] is None else torch.full((N_ROWS, 2), form[1], dtype=torch.float64)
    latent = normal(generator, N_ROWS, 2).square() + 0.1
    warped = Prediction(normal(generator, N_ROWS, 2), latent, latent + NOISE, degrees)
    output = OutputMap()
    if kind != "none":
        with torch.no_grad():
            output = random_warp(kind, 2, generator, n_targets=2, spread=0.4).factors()[0]
    return Density(warped, output, SCALING)


@pytest.fixture(params=FORMS)
def densities(request: pytest.FixtureRequest, generator: torch.Generator) -> list[Density]:
    return [make_density(generator, form) for form in FORMS[request.param]]


@pytest.fixture
def weights(densities: list[Density], generator: torch.Generator) -> Tensor:
    weights = torch.rand(len(densities), generator=generator, dtype=torch.float64)
    return weights / weights.sum()


@pytest.fixture
def mixture(densities: list[Density], weights: Tensor) -> Mixture:
    return mix(densities, weights)


@pytest.fixture
def plain(generator: torch.Generator) -> Density:
    """A Gaussian in units of the spread."""
    density = make_density(generator, ("none", None))
    return replace(density, scaling=target_scaling([0.0, 0.0], [1.0, 1.0]))


def test_it_averages_its_members(
    mixture: Mixture, densities: list[Density], weights: Tensor, generator: torch.Generator
) -> None:
    def average(values: list[Tensor]) -> Tensor:
        return torch.einsum("m,mnt->nt", weights, torch.stack(values))

    for ours, members in (
        (mixture, densities),
        (mixture.without_noise(), [member.without_noise() for member in densities]),
    ):
        mean = average([member.mean for member in members])
        spread = [each.observation_variance + (each.mean - mean).square() for each in members]
        assert torch.allclose(ours.mean, mean, rtol=1e-12)
        assert torch.allclose(ours.observation_variance, average(spread), rtol=1e-12)
    y = SCALING.original_targets(normal(generator, N_ROWS, 2))
    noise = average([member.noise_variance for member in densities])
    assert torch.allclose(mixture.noise_variance, noise, rtol=1e-12)
    assert torch.allclose(mixture.cdf(y), average([d.cdf(y) for d in densities]), rtol=1e-12)
    density = average([member.log_density(y).exp() for member in densities])
    assert torch.allclose(mixture.log_density(y), density.log(), rtol=1e-10)


def test_members_of_the_same_form_are_in_one_batch(generator: torch.Generator) -> None:
    densities = [make_density(generator, form) for form in FORMS["all"]]
    mixture = mix(densities, equal_weights(len(densities)))
    shapes = [tuple(density.warped.mean.shape) for density in mixture.densities]
    assert shapes == [(n_members, N_ROWS, 2) for n_members in (2, 2, 1, 1, 1)]


def test_quantiles_invert_the_cumulative_whose_slope_is_the_density(mixture: Mixture) -> None:
    quantiles = mixture.quantiles(PROBABILITIES)
    for value, level in zip(quantiles.unbind(-1), PROBABILITIES, strict=True):
        assert (mixture.cdf(value) - level).abs().max() < 1e-8 * min(level, 1 - level)
        density = mixture.log_density(value).exp()
        if any(each.warped.degrees is not None for each in mixture.densities):
            step = 1e-4  # SciPy computes the cumulative of Student's t, without gradients
            slope = (mixture.cdf(value + step) - mixture.cdf(value - step)) / (2 * step)
            assert torch.allclose(density, slope, rtol=1e-4, atol=1e-9)
        else:
            y = value.requires_grad_()
            (slope,) = torch.autograd.grad(mixture.cdf(y).sum(), y)
            assert torch.allclose(density, slope, rtol=1e-7)
        assert torch.allclose(mixture.quantile(level), value, rtol=1e-12)
    levels = torch.linspace(1e-4, 1 - 1e-4, 500, dtype=torch.float64)
    assert (mixture.quantiles(levels.tolist()).diff(dim=-1) > 0).all()


@pytest.mark.parametrize("n_members", [9, 42, 57])
def test_no_probability_is_above_one(n_members: int, plain: Density) -> None:
    weights = torch.full((n_members,), 1 / n_members, dtype=torch.float64)  # a sum above one
    mixture = mix([plain] * n_members, weights)
    for far, probability in ((-1e300, 0.0), (1e300, 1.0)):
        cdf = mixture.cdf(torch.full((N_ROWS, 2), far, dtype=torch.float64))
        assert ((cdf >= 0) & (cdf <= 1)).all()
        assert cdf[0, 0].item() == pytest.approx(probability)


def test_quantiles_of_the_upper_tail_are_as_accurate_as_of_the_lower(plain: Density) -> None:
    """A symmetric mixture, whose quantiles lie symmetrically around its mean."""
    mirrored = replace(plain, warped=replace(plain.warped, mean=-plain.warped.mean))
    both = mix([plain, mirrored], equal_weights(2))
    levels = torch.tensor([2.0**-33, 2.0**-20, 0.25], dtype=torch.float64)
    lower, upper = both.quantiles(levels.tolist()), both.quantiles((1 - levels).tolist())
    assert torch.allclose(lower, -upper, rtol=1e-11)


def test_quantiles_between_far_modes() -> None:
    """Between the modes the density is zero to rounding, and no Newton step leads anywhere."""
    mean = torch.tensor([[0.0], [0.0]], dtype=torch.float64)
    narrow = Prediction(mean, 0 * mean + 1e-6, 0 * mean + 1e-6)
    scaling = target_scaling([0.0], [1.0])
    members = [
        Density(replace(narrow, mean=mean + place), OutputMap(), scaling) for place in (0.0, 1000.0)
    ]
    mixture = mix(members, torch.tensor([0.4, 0.6], dtype=torch.float64))
    levels = [0.1, 0.4, 0.41, 0.7]
    found = mixture.quantiles(levels)[0, 0]
    for level, value in zip(levels, found, strict=True):
        assert mixture.cdf(value.expand(2, 1))[0, 0].item() == pytest.approx(level, abs=1e-10)
    assert found[0] < 0 < found[1] < found[2] < found[3]


def test_chunks_of_rows_do_not_change_results(
    densities: list[Density], weights: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> list[Tensor]:
        fresh: list[Density] = [replace(density) for density in densities]  # nothing is cached
        mixture = mix(fresh, weights)
        y = SCALING.original_targets(torch.zeros(N_ROWS, 2, dtype=torch.float64))
        moments = [mixture.mean, mixture.observation_variance, mixture.noise_variance]
        densities_of = [mixture.log_density(y), mixture.cdf(y), mixture.quantiles([0.1, 0.9])]
        return [*moments, *densities_of, fresh[0].mean, fresh[1].observation_variance]

    whole = ask()
    monkeypatch.setattr(density_module, "NODE_VALUES", {"cpu": 21 * 2 * 7 * 3})
    for ours, theirs in zip(ask(), whole, strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-11)
