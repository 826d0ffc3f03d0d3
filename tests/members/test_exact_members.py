"""Members with the exact kernel: conditioned on rows and in training, against dense algebra."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from builders.models import normal
from builders.surrogates import (
    KINDS,
    bent_models,
    dense_kernel,
    small_members,
    small_rows,
    uniform,
)
from torch import Tensor
from torch.distributions import MultivariateNormal

from sswim.members import (
    ExactKind,
    ExactMembers,
    ExactModels,
    ExactRows,
    ExactTraining,
    exact_members,
    exact_training,
    refit_noise,
)
from sswim.surrogate import KINDS as OWN_KINDS
from sswim.warps.warp import WarpLayer

Moments = tuple[Tensor, Tensor]


def dense_moments(members: ExactMembers, rows: ExactRows, new: Tensor) -> Moments:
    """Return means and covariances of all members at new points by inverses."""
    factors = members.factors
    means, covariances = [], []
    for member in range(len(factors.kinds)):
        noise = factors.noise[member].expand(len(rows.inputs))
        if rows.variance is not None:
            noise = noise + rows.variance
        kernel = dense_kernel(factors, member, rows.inputs, rows.inputs)
        inverse = (kernel + noise.diag()).inverse()
        cross = dense_kernel(factors, member, new, rows.inputs)
        centre = factors.mean[member]
        means.append(centre + cross @ inverse @ (rows.targets - centre))
        covariances.append(dense_kernel(factors, member, new, new) - cross @ inverse @ cross.mT)
    return torch.stack(means), torch.stack(covariances)


def assert_moments(ours: Moments, theirs: Moments) -> None:
    for value, expected in zip(ours, theirs, strict=True):
        assert value.shape == expected.shape
        assert torch.allclose(value, expected, atol=1e-9)


@pytest.mark.parametrize("known", [False, True])
@torch.no_grad()
def test_moments_are_those_of_dense_gps(known: bool, generator: torch.Generator) -> None:
    members = small_members(generator, known=known)
    new = uniform(generator, 4, 2) - 0.5
    moments = members.predict_jointly(new[None])
    assert_moments(moments, dense_moments(members, members.rows, new))
    chosen = torch.tensor([0, 0, 2, 3, 5, 5])
    some = members.select(chosen)
    assert_moments(some.predict_jointly(new[None]), (moments[0][chosen], moments[1][chosen]))


@pytest.mark.parametrize("known", [(False, False), (True, True), (False, True), (True, False)])
@torch.no_grad()
def test_an_update_conditions_on_all_rows(
    known: tuple[bool, bool], generator: torch.Generator
) -> None:
    members = small_members(generator, known=known[0])
    first, second = (small_rows(generator, n, known=known[1]) for n in (3, 2))
    new = uniform(generator, 4, 2) - 0.5
    updated = members.update(first).update(second)
    parts = (members.rows, first, second)
    variances = [torch.zeros(len(p.inputs)) if p.variance is None else p.variance for p in parts]
    rows = ExactRows(
        torch.cat([part.inputs for part in parts]),
        torch.cat([part.targets for part in parts]),
        torch.cat(variances).double(),
    )
    assert updated.batch_shape == ()
    assert_moments(updated.predict_jointly(new[None]), dense_moments(members, rows, new))


@pytest.mark.parametrize(
    ("inputs", "targets", "points", "n_own"),
    [
        ((3,), (4, 3), (3,), 1),
        ((3,), (4, 1), (5, 1, 1), 1),
        ((), (3,), (), len(KINDS)),
        ((3,), (), (2, 3), len(KINDS)),
    ],
)
@torch.no_grad()
def test_updates_of_batches_equal_a_loop(
    inputs: tuple[int, ...],
    targets: tuple[int, ...],
    points: tuple[int, ...],
    n_own: int,
    generator: torch.Generator,
) -> None:
    """With points that members share and with points of their own."""
    members = small_members(generator)
    variance = 0.1 * uniform(generator, *inputs, 2)
    rows = ExactRows(
        uniform(generator, *inputs, 2, 2) - 0.5, normal(generator, *targets, 2), variance
    )
    more = ExactRows(uniform(generator, *inputs, 1, 2) - 0.5, normal(generator, *targets, 1), None)
    once = members.update(rows)
    twice = once.update(more)
    assert once.batch_shape == twice.batch_shape == torch.broadcast_shapes(inputs, targets)
    new = uniform(generator, *points, n_own, 4, 2) - 0.5
    found = once.predict_jointly(new), twice.predict_jointly(new)
    batch = torch.broadcast_shapes(inputs, targets, points)
    assert found[0][0].shape == (*batch, len(KINDS), 4)
    for index in np.ndindex(*batch):

        def entry(tensor: Tensor, n_last: int, index: tuple[int, ...] = index) -> Tensor:
            return tensor.expand(*batch, *tensor.shape[-n_last:])[index]

        x = entry(new, 3)
        single = members.update(
            ExactRows(entry(rows.inputs, 2), entry(rows.targets, 1), entry(variance, 1))
        )
        assert_moments((found[0][0][index], found[0][1][index]), single.predict_jointly(x))
        single = single.update(ExactRows(entry(more.inputs, 2), entry(more.targets, 1), None))
        assert_moments((found[1][0][index], found[1][1][index]), single.predict_jointly(x))


def test_gradients_are_exact(generator: torch.Generator) -> None:
    members = small_members(generator)
    new = (uniform(generator, 2, 1, 2, 2) - 0.5).requires_grad_()
    assert torch.autograd.gradcheck(members.predict_jointly, (new,), fast_mode=True)
    further = (uniform(generator, 2, 1, 2) - 0.5).requires_grad_()
    targets = normal(generator, 3, 2, 1).requires_grad_()

    def updated(inputs: Tensor, values: Tensor, points: Tensor) -> Moments:
        return members.update(ExactRows(inputs, values, None)).predict_jointly(points)

    assert torch.autograd.gradcheck(updated, (further, targets, new), fast_mode=True)
    equal = members.rows.inputs[:1].repeat(2, 1)[None].requires_grad_()
    mean, covariance = members.predict_jointly(equal)
    [gradient] = torch.autograd.grad(mean.sum() + covariance.sum(), equal)
    assert gradient.isfinite().all()


def equal_weights(n: int = len(KINDS)) -> Tensor:
    return torch.full((n,), 1 / n, dtype=torch.float64)


@pytest.fixture
def few_frequencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make draws cheap; averages over functions, which have their own frequencies, stay exact."""
    monkeypatch.setattr(exact_members, "N_FREQUENCIES", 16)


@pytest.mark.usefixtures("few_frequencies")
@pytest.mark.parametrize("known", [False, True])
@torch.no_grad()
def test_drawn_functions_have_the_moments_of_the_posterior(
    known: bool, generator: torch.Generator
) -> None:
    members = small_members(generator, n_rows=4, known=known)
    members = members.update(small_rows(generator, 1))
    points = uniform(generator, 3, 2) - 0.5
    n = 150 * len(KINDS)
    draws = members.sample(n, equal_weights(), generator)(points[None])
    means, covariances = members.predict_jointly(points[None])
    mean = means.mean(0)
    covariance = covariances.mean(0) + (means - mean).mT @ (means - mean) / len(KINDS)
    assert draws.shape == (n, 3)
    assert ((draws.mean(0) - mean).abs() < 4 * draws.std(0) / n**0.5).all()
    products = (draws - mean)[:, :, None] * (draws - mean)[:, None]
    error = (products.mean(0) - covariance).abs()
    assert (error < 4 * products.std(0) / n**0.5).all()


@torch.no_grad()
def test_drawn_functions_are_functions(generator: torch.Generator) -> None:
    members = small_members(generator)
    functions = members.sample(6, equal_weights(), generator)
    points = uniform(generator, 4, 6, 3, 2) - 0.5
    values = functions(points)
    assert values.shape == (4, 6, 3)
    assert torch.equal(functions(points), values)
    assert torch.allclose(functions(points[2]), values[2], atol=1e-10)
    for number in range(6):
        shared = functions(points[:, number, None])
        assert torch.allclose(shared[:, number], values[:, number], atol=1e-10)


@torch.no_grad()
def test_members_have_functions_by_their_weights(generator: torch.Generator) -> None:
    members = small_members(generator, KINDS[:6])
    centres = 1e4 * torch.arange(6, dtype=torch.float64)
    members = replace(members, factors=replace(members.factors, mean=centres))
    members = ExactMembers.condition(members.factors, members.rows)
    far = torch.full((1, 1, 2), 1e6, dtype=torch.float64)  # where functions are near their means
    for weights, numbers in (([1, 2, 3, 4, 5, 6], None), ([0, 0, 0, 1, 0, 0], [0, 0, 0, 21, 0, 0])):
        shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)
        values = members.sample(21, shares, generator)(far)
        counts = (values / 1e4).round().int().flatten().bincount(minlength=6).tolist()
        if numbers is None:
            assert sum(counts) == 21
            assert all(abs(n - m) <= 1 for n, m in zip(counts, weights, strict=True))
        else:
            assert counts == numbers


@pytest.mark.usefixtures("few_frequencies")
def test_gradients_of_drawn_functions_are_exact(generator: torch.Generator) -> None:
    functions = small_members(generator).sample(3, equal_weights(), generator)
    for shape in ((1, 2, 2), (3, 2, 2), (2, 3, 2, 2)):
        points = (uniform(generator, *shape) - 0.5).requires_grad_()
        assert torch.autograd.gradcheck(functions, (points,))


# Training.


def test_members_start_without_warps_from_short_or_long_length_scales(
    generator: torch.Generator,
) -> None:
    inputs = uniform(generator, 12, 3) - 0.5
    factors, _ = ExactModels(OWN_KINDS, inputs, False, generator).factors()
    members = ExactMembers.condition(factors, ExactRows(inputs, normal(generator, 12), None))
    assert torch.allclose(members.points, inputs / factors.length_scales[:, None], atol=1e-12)
    kinds = (ExactKind("rbf"), ExactKind("rbf", start="rough"), ExactKind("rbf", start="fine"))
    factors, _ = ExactModels(kinds, inputs, False, generator).factors()
    assert (factors.length_scales[1] > factors.length_scales[0]).all()
    assert (factors.length_scales[2] < factors.length_scales[0]).all()
    assert factors.noise[1] > factors.noise[0] == factors.noise[2]


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


def in_training(generator: torch.Generator, **options: Any) -> ExactTraining:
    """Return members in training; the first two rows are left out by all of them."""
    models = bent_models(generator)
    targets = normal(generator, len(KINDS), 9)
    left_out = (torch.arange(9) < 2).expand(len(KINDS), -1)
    variance = 0.01 + uniform(generator, len(KINDS), 9)
    return ExactTraining(
        models, uniform(generator, 9, 2) - 0.5, targets, variance, left_out, **options
    )


@pytest.mark.parametrize(("size", "threaded"), [(1, False), (1, True), (2**16, False)])
def test_posteriors_have_the_evidence_of_rows_that_are_not_left_out(
    size: int, threaded: bool, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_training, "PART_SIZE", size)
    training = in_training(generator)
    assert training.variance is not None
    if threaded:
        training.map_parts = ThreadPoolExecutor(3).map
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
