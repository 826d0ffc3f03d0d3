from __future__ import annotations

from typing import cast

import torch
from builders.surrogates import KINDS, bent_members, uniform

from sswim.members.exact_model import SMALLEST_NOISE, ExactKind, ExactModels, exact_points
from sswim.rows import Measure
from sswim.surrogate.fitting import KINDS as OWN_KINDS
from sswim.warps.monotone_warp import monotone_warp
from sswim.warps.warp import WarpLayer, warp


@torch.no_grad()
def test_points_are_warped_in_turn(generator: torch.Generator) -> None:
    factors, _ = bent_members(generator).factors()
    inputs = uniform(generator, 7, 2) - 0.5
    found = exact_points(factors, inputs[None])
    for member, kind in enumerate(KINDS):
        points = inputs
        if kind.monotone:
            points = monotone_warp(factors.log_slopes[member, None], points)[0]
        for level in range(kind.depth):
            own = factors.warps[level].map(lambda tensor, index=member: tensor[index])  # type: ignore[misc]
            points = warp(own, Measure(points)).mean
        assert torch.allclose(found[member], points / factors.length_scales[member], atol=1e-12)


@torch.no_grad()
def test_sets_of_points_equal_a_loop(generator: torch.Generator) -> None:
    factors, _ = bent_members(generator).factors()
    shared, own = uniform(generator, 2, 3, 1, 4, 2), uniform(generator, 2, 3, len(KINDS), 4, 2)
    for inputs in (shared, own):
        found = exact_points(factors, inputs)
        assert found.shape == (2, 3, len(KINDS), 4, 2)
        for i in range(2):
            for j in range(3):
                single = exact_points(factors, inputs[i, j])
                assert torch.allclose(found[i, j], single, atol=1e-12)


def test_the_members_start_without_warps(generator: torch.Generator) -> None:
    inputs = uniform(generator, 12, 3) - 0.5
    members = ExactModels(OWN_KINDS, inputs, False, generator)
    factors, _ = members.factors()
    expected = inputs / factors.length_scales[:, None]
    assert torch.allclose(exact_points(factors, inputs[None]), expected, atol=1e-12)


def test_members_start_from_short_or_long_length_scales(generator: torch.Generator) -> None:
    kinds = (ExactKind("rbf"), ExactKind("rbf", start="rough"), ExactKind("rbf", start="fine"))
    factors, _ = ExactModels(kinds, uniform(generator, 6, 2) - 0.5, False, generator).factors()
    assert (factors.length_scales[1] > factors.length_scales[0]).all()
    assert (factors.length_scales[2] < factors.length_scales[0]).all()
    assert factors.noise[1] > factors.noise[0] == factors.noise[2]


@torch.no_grad()
def test_chosen_members_keep_their_points(generator: torch.Generator) -> None:
    factors, _ = bent_members(generator).factors()
    inputs = uniform(generator, 1, 5, 2) - 0.5
    every = exact_points(factors, inputs)
    for chosen in ([0, 0, 1, 3, 3, 5], [1, 2], [4, 5], [3]):
        indices = torch.tensor(chosen)
        some = factors.select(indices)
        assert len(some.warps) == sum(chosen[0] < n for n in (2, 1))
        assert torch.allclose(exact_points(some, inputs), every[indices], atol=1e-13)
        assert torch.equal(some.noise, factors.noise[indices])


def test_priors_are_those_of_each_member(generator: torch.Generator) -> None:
    members = bent_members(generator)
    with torch.no_grad():
        _, prior = members.factors()
        for member in (0, 3):
            for name in ("log_length_scales", "log_signal", "log_interaction", "mean", "log_noise"):
                getattr(members, name)[member] += 1
            changed = members.factors()[1] != prior
            assert changed.nonzero()[:, 0].tolist() == [member]
            _, prior = members.factors()


def test_every_parameter_but_known_noise_is_trained(generator: torch.Generator) -> None:
    inputs = uniform(generator, 6, 2) - 0.5
    for known in (False, True):
        members = ExactModels(OWN_KINDS, inputs, known, generator)
        factors, prior = members.factors()
        assert bool((factors.noise == SMALLEST_NOISE).all()) == known
        points = exact_points(factors, inputs[None])
        total = points.square().sum() + (factors.noise * factors.signal * factors.mean).sum()
        (total + prior.sum()).backward()
        lists = [members.scalars(), [members.monotone.whitened]]
        layers = [cast(WarpLayer, layer) for layer in members.layers]
        trained = sum(lists, [parameter for layer in layers for parameter in layer.parameters()])
        assert all(parameter.grad is not None for parameter in trained)
        missing = {id(each) for each in members.parameters()} - {id(each) for each in trained}
        assert missing == ({id(members.log_noise)} if known else set())


def test_chosen_members_have_their_own_factors(generator: torch.Generator) -> None:
    members = bent_members(generator)
    factors, prior = members.factors()
    prior.sum().backward()  # gradients have the shape of all members
    for chosen in ([0, 1, 3, 5], [1, 2], [4, 6]):
        indices = torch.tensor(chosen)
        some = members.select(indices)
        found, its_prior = some.factors()
        assert some.kinds == tuple(members.kinds[index] for index in chosen)
        assert torch.allclose(its_prior, prior[indices])
        expected = factors.select(indices).tensors()
        assert all(map(torch.equal, found.tensors(), expected))
        its_prior.sum().backward()
    assert len(members.kinds) == len(prior)  # the others are left as they were
