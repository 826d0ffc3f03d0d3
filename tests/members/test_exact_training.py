"""Models with the exact kernel and their training, against dense Gaussian densities."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
import torch
from builders.models import normal
from builders.surrogates import KINDS, bent_models, dense_kernel, small_members, uniform
from torch import Tensor
from torch.distributions import MultivariateNormal

from sswim.members import (
    ExactKind,
    ExactMembers,
    ExactModels,
    ExactRows,
    ExactTraining,
    exact_training,
    refit_noise,
)
from sswim.surrogate import KINDS as OWN_KINDS
from sswim.warps.warp import WarpLayer


def test_members_start_without_warps(generator: torch.Generator) -> None:
    inputs = uniform(generator, 12, 3) - 0.5
    factors, _ = ExactModels(OWN_KINDS, inputs, False, generator).factors()
    members = ExactMembers.condition(factors, ExactRows(inputs, normal(generator, 12), None))
    assert torch.allclose(members.points, inputs / factors.length_scales[:, None], atol=1e-12)


def test_members_start_from_short_or_long_length_scales(generator: torch.Generator) -> None:
    kinds = (ExactKind("rbf"), ExactKind("rbf", start="rough"), ExactKind("rbf", start="fine"))
    factors, _ = ExactModels(kinds, uniform(generator, 6, 2) - 0.5, False, generator).factors()
    assert (factors.length_scales[1] > factors.length_scales[0]).all()
    assert (factors.length_scales[2] < factors.length_scales[0]).all()
    assert factors.noise[1] > factors.noise[0] == factors.noise[2]


def test_priors_are_those_of_each_member(generator: torch.Generator) -> None:
    models = bent_models(generator)
    with torch.no_grad():
        _, prior = models.factors()
        for member in (0, 3):
            for name in ("log_length_scales", "log_signal", "log_interaction", "mean", "log_noise"):
                getattr(models, name)[member] += 1
            changed = models.factors()[1] != prior
            assert changed.nonzero()[:, 0].tolist() == [member]
            _, prior = models.factors()


def test_chosen_members_have_their_own_factors(generator: torch.Generator) -> None:
    models = bent_models(generator)
    factors, prior = models.factors()
    prior.sum().backward()  # gradients have the shape of all members
    for chosen in ([0, 1, 3, 5], [1, 2], [4, 6]):
        indices = torch.tensor(chosen)
        some, its_prior = models.select(indices).factors()
        assert some.kinds == tuple(KINDS[index] for index in chosen)
        assert len(some.warps) == sum(chosen[0] < n for n in (2, 1))
        assert torch.allclose(its_prior, prior[indices])
        assert all(map(torch.equal, some.tensors(), factors.select(indices).tensors()))
        its_prior.sum().backward()
    assert len(models.kinds) == len(prior)  # the others are left as they were


@pytest.mark.parametrize("known", [False, True])
def test_every_parameter_but_known_noise_is_trained(
    known: bool, generator: torch.Generator
) -> None:
    inputs = uniform(generator, 6, 2) - 0.5
    models = ExactModels(OWN_KINDS, inputs, known, generator)
    assert bool((models.factors()[0].noise <= 1e-10).all()) == known
    before = {name: value.detach().clone() for name, value in models.named_parameters()}
    targets = normal(generator, 6).expand(len(OWN_KINDS), -1)
    variance = torch.full_like(targets, 0.01) if known else None
    ExactTraining(models, inputs, targets, variance, torch.zeros_like(targets).bool()).run(3)
    layers = [cast(WarpLayer, layer) for layer in models.layers]
    assert all(parameter.grad is not None for layer in layers for parameter in layer.parameters())
    same = {name for name, value in models.named_parameters() if torch.equal(value, before[name])}
    assert same == ({"log_noise"} if known else set())


def training_rows(generator: torch.Generator, **options: Any) -> ExactTraining:
    """Return members in training; the first two rows are left out by all of them."""
    models = bent_models(generator)
    targets = normal(generator, len(KINDS), 9)
    left_out = (torch.arange(9) < 2).expand(len(KINDS), -1)
    variance = 0.01 + uniform(generator, len(KINDS), 9)
    return ExactTraining(
        models, uniform(generator, 9, 2) - 0.5, targets, variance, left_out, **options
    )


@pytest.mark.parametrize("size", [1, 2**16])
def test_posteriors_have_the_evidence_of_rows_that_are_not_left_out(
    size: int, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_training, "PART_SIZE", size)
    training = training_rows(generator)
    assert training.variance is not None
    factors, prior = training.models.factors()
    expected = prior - 3.5 * math.log(2 * math.pi) + math.log(exact_training.LEFT_OUT)
    densities = []
    for member in range(len(KINDS)):
        kernel = dense_kernel(factors, member, training.inputs[2:], training.inputs[2:])
        noise = factors.noise[member] + training.variance[member, 2:]
        centre = factors.mean[member].expand(7)
        density = MultivariateNormal(centre, kernel + noise.diag_embed())
        densities.append(density.log_prob(training.targets[member, 2:]))
    expected = expected - torch.stack(densities)
    found = training.negative_log_posteriors()
    assert torch.allclose(found, expected, atol=1e-4)
    weights = uniform(generator, len(KINDS))
    parameters = list(training.models.parameters())
    slopes, expected_slopes = (
        torch.autograd.grad((weights * value).sum(), parameters) for value in (found, expected)
    )
    for slope, other in zip(slopes, expected_slopes, strict=True):
        assert torch.allclose(slope, other, atol=1e-4)


def test_threads_change_nothing(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_training, "PART_SIZE", 1)
    training = training_rows(generator)
    results: list[tuple[Tensor, ...]] = []
    with ThreadPoolExecutor(3) as pool:
        for map_parts in (map, pool.map):
            training.map_parts = map_parts
            value = training.negative_log_posteriors()
            results.append((value, *torch.autograd.grad(value.sum(), training.models.scalars())))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("noise", [1e-7, 1e-4, 1e-2])
@torch.no_grad()
def test_the_noise_of_drawn_rows_is_refitted(noise: float, generator: torch.Generator) -> None:
    factors = small_members(generator, noise=1e-5).factors
    inputs = uniform(generator, 20, 2).repeat(8, 1) - 0.5
    for member in range(len(KINDS)):
        kernel = dense_kernel(factors, member, inputs, inputs) + 1e-9 * torch.eye(160)
        function = torch.linalg.cholesky(kernel) @ normal(generator, 160)
        targets = factors.mean[member] + function + noise**0.5 * normal(generator, 160)
        own = factors.select(torch.tensor([member]))
        assert 0.3 < refit_noise(own, inputs, targets).noise / noise < 3


@torch.no_grad()
def test_refitted_noise_is_the_most_probable_level(generator: torch.Generator) -> None:
    members = small_members(generator, noise=1e-3)
    factors, rows = members.factors, members.rows
    refitted = refit_noise(factors, rows.inputs, rows.targets)
    levels = torch.logspace(-11, 0, 23, dtype=torch.float64)
    priors = 0.5 * ((levels.log() - math.log(1e-5)) / 3).square()
    for member in range(len(KINDS)):
        kernel = dense_kernel(factors, member, rows.inputs, rows.inputs)
        matrices = kernel + (levels + 1e-10)[:, None, None] * torch.eye(9)
        density = MultivariateNormal(factors.mean[member].expand(9), matrices)
        best = (priors - density.log_prob(rows.targets)).argmin()
        assert torch.allclose(refitted.noise[member], levels[best] + 1e-10)
    assert refitted.length_scales is factors.length_scales
