"""The surrogate: the mixture of its members, and its fit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.models import normal
from builders.surrogates import bent_map, small_members, small_surrogate, uniform
from scipy import optimize, special
from torch import Tensor

from sswim.members import ExactKind
from sswim.surrogate import KINDS, InputRange, Surrogate, fit_surrogate, surrogate
from sswim.surrogate.surrogate import (
    N_FOLDS,
    NEAR,
    SMALLEST_FOLDED,
    SMALLEST_WEIGHT,
    assign_folds,
    distinct_rows,
    stacked_weights,
)

PLAIN = (ExactKind("matern52", monotone=True), ExactKind("rbf"))


@torch.no_grad()
def test_moments_are_those_of_the_mixture(generator: torch.Generator) -> None:
    model = small_surrogate(small_members(generator))
    inputs = uniform(generator, 3, 4, 2)
    mean, covariance = model.predict_jointly(inputs)
    means, covariances = model.members.predict_jointly((inputs - 0.5)[:, None])
    for entry in range(3):
        first, second = torch.zeros(4).double(), torch.zeros(4, 4).double()  # E z, E zzᵀ
        for weight, m, c in zip(model.weights, means[entry], covariances[entry], strict=True):
            first += weight * m
            second += weight * (c + torch.outer(m, m))
        assert torch.allclose(mean[entry], first, atol=1e-10)
        assert torch.allclose(covariance[entry], second - torch.outer(first, first), atol=1e-10)


@torch.no_grad()
def test_noise_is_added_to_the_diagonal(generator: torch.Generator) -> None:
    model = small_surrogate(small_members(generator), bent_map(generator))
    inputs = uniform(generator, 4, 2)
    mean, covariance = model.predict_jointly(inputs)
    same, noisy = model.predict_jointly(inputs, include_noise=True)
    noise = (model.weights * model.members.factors.noise).sum()
    assert torch.equal(same, mean)
    assert torch.allclose(noisy, covariance + noise * torch.eye(4), atol=1e-12)
    variance = uniform(generator, 4)
    _, known = model.predict_jointly(inputs, variance=variance)
    targets = model.target_map.inverse(mean)
    step = 1e-6
    above, below = (model.target_map.forward(targets + d)[0] for d in (step, -step))
    slope = (above - below) / (2 * step)
    assert torch.allclose(known, covariance + (slope**2 * variance).diag(), rtol=1e-6)
    _, one = model.predict_jointly(inputs, variance=variance[:1])
    _, repeated = model.predict_jointly(inputs, variance=variance[:1].expand(4))
    assert torch.equal(one, repeated)


@torch.no_grad()
def test_updates_map_targets_and_their_noise(generator: torch.Generator) -> None:
    model = small_surrogate(small_members(generator), bent_map(generator))
    inputs, targets = uniform(generator, 3, 2), 3 + 0.5 * normal(generator, 3)
    mapped, slope = model.target_map.forward(targets)
    for variance in (None, uniform(generator, 3), uniform(generator, 1)):
        rows = model.update(inputs, targets, variance).members.rows
        assert torch.equal(rows.inputs[-3:], inputs - 0.5)
        assert torch.equal(rows.targets[-3:], mapped)
        assert (rows.variance is None) == (variance is None)
        if variance is not None and rows.variance is not None:
            assert torch.allclose(rows.variance[-3:], variance * slope**2)
    batched = model.update(inputs.expand(4, 2, 3, 2), targets)
    assert batched.batch_shape == (4, 2)
    with pytest.raises(NotImplementedError, match=r"of shape \(4, 2\)"):
        batched.sample(2, generator)


@torch.no_grad()
def test_drawn_functions_are_in_the_units_of_rows(generator: torch.Generator) -> None:
    model = small_surrogate(small_members(generator, n_rows=5, noise=1e-12), bent_map(generator))
    rows = model.members.rows
    values = model.sample(7, generator)((rows.inputs + 0.5)[None])
    assert torch.allclose(values, model.target_map.inverse(rows.targets).expand(7, -1), atol=1e-4)


def test_inputs_in_the_unit_cube_are_used_as_they_are(generator: torch.Generator) -> None:
    inputs = uniform(generator, 5, 2)
    assert torch.equal(InputRange.of(inputs).scale(inputs), inputs - 0.5)
    far = torch.stack((100 * inputs[:, 0], torch.full((5,), 7.0).double()), dim=1)
    scaled = InputRange.of(far).scale(far)
    assert torch.allclose(scaled.amin(0), torch.tensor([-0.5, -0.5]).double())
    assert torch.allclose(scaled.amax(0), torch.tensor([0.5, -0.5]).double())


def fit(
    inputs: Tensor, targets: Tensor, variance: Tensor | None = None, n_steps: int = 5, seed: int = 0
) -> Surrogate:
    generator = torch.Generator().manual_seed(seed)
    return fit_surrogate(inputs, targets, variance, generator, PLAIN, n_steps)


@torch.no_grad()
def test_a_fit_weighs_its_members_and_predicts_its_rows() -> None:
    generator = torch.Generator().manual_seed(1)
    inputs = uniform(generator, 16, 2)
    targets = (3 * inputs).sin().prod(-1).exp()
    model = fit_surrogate(inputs, targets, None, generator, n_steps=5)
    assert torch.allclose(model.weights.sum(), torch.ones(()).double())
    assert (model.weights > 0).all()
    assert len(model.weights) == len(model.members.factors.kinds)
    assert len(model.weights) % N_FOLDS == 0
    assert not any(tensor.requires_grad for tensor in model.members.factors.tensors())
    rows = model.members.rows
    mean, covariance = model.predict_jointly(rows.inputs + 0.5)
    assert torch.allclose(mean, rows.targets, atol=0.05)
    assert torch.linalg.eigvalsh(covariance).min() > -1e-8


@torch.no_grad()  # a model may be made where no gradients are wanted
@pytest.mark.parametrize("n_rows", [1, 2, SMALLEST_FOLDED - 1])
def test_few_rows_are_not_folded(n_rows: int, generator: torch.Generator) -> None:
    inputs = uniform(generator, n_rows, 2)
    model = fit(inputs, normal(generator, n_rows))
    assert torch.equal(model.weights, torch.tensor([0.5, 0.5], dtype=torch.float64))
    for moment in model.predict_jointly(uniform(generator, 3, 2)):
        assert moment.isfinite().all()
    copies = inputs.repeat(3, 1)  # are not folded apart
    assert len(fit(copies, normal(generator, 3 * n_rows)).weights) == 2


def test_near_copies_of_rows_are_not_learnt_from(generator: torch.Generator) -> None:
    inputs = uniform(generator, 12, 2)
    targets = (5 * inputs).sin().sum(-1)
    near = inputs[:1] + 1e-4 * uniform(generator, 30, 2)
    more = torch.cat((inputs, near)), torch.cat((targets, (5 * near).sin().sum(-1)))
    one, other = fit(inputs, targets), fit(*more)
    assert torch.equal(one.weights, other.weights)
    assert torch.equal(one.members.factors.length_scales, other.members.factors.length_scales)
    assert torch.equal(one.target_map.spread, other.target_map.spread)
    assert other.members.points.shape[1] == 42  # members are conditioned on all rows
    # Only near copies show that there is no noise.
    assert (other.members.factors.noise < one.members.factors.noise).all()


@pytest.mark.parametrize("n_copies", [1, 5])
@torch.no_grad()
def test_noise_is_learnt(n_copies: int, generator: torch.Generator) -> None:
    inputs = uniform(generator, 60 // n_copies, 1).repeat(n_copies, 1)
    targets = 2 * inputs[:, 0] + 0.2 * normal(generator, 60)
    model = fit_surrogate(inputs, targets, None, generator, KINDS if n_copies == 1 else PLAIN, 60)
    middle = torch.tensor([[0.5]], dtype=torch.float64)
    _, variance = model.target_map.moments(*model.predict_jointly(middle, include_noise=True))
    assert 0.13 < variance.sqrt().item() < 0.3


def test_known_noise_is_used_as_it_is(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surrogate, "LARGEST_TRAINED", 10)
    inputs = uniform(generator, 20, 1)
    targets, variance = normal(generator, 20), uniform(generator, 20)
    model = fit(inputs, targets, variance)
    mapped, slope = model.target_map.forward(targets)
    rows = model.members.rows  # all of them, though members have learnt from ten
    assert rows.variance is not None
    assert torch.allclose(rows.variance, variance * slope.square())
    assert torch.allclose(rows.targets, mapped)
    assert model.members.factors.noise.max() < 1e-6


def test_a_fit_is_repeated_by_its_seed_in_all_units(generator: torch.Generator) -> None:
    inputs, targets = uniform(generator, 12, 2), normal(generator, 12)
    points = uniform(generator, 5, 2)

    def moments(offset: float, scale: float, seed: int = 0) -> tuple[Tensor, Tensor]:
        model = fit(inputs, offset + scale * targets, seed=seed)
        mean, covariance = model.target_map.moments(*model.predict_jointly(points))
        return (mean - offset) / scale, covariance / scale**2

    one, same, other = moments(0.0, 1.0), moments(0.0, 1.0), moments(0.0, 1.0, seed=1)
    assert torch.equal(one[0], same[0])
    assert not torch.equal(one[0], other[0])
    for offset, scale in ((-300.0, 100.0), (0.0, 1e-9)):
        for ours, theirs in zip(moments(offset, scale), one, strict=True):
            assert torch.allclose(ours, theirs, atol=1e-6)


def test_weights_maximise_the_likelihood_of_the_mixture(generator: torch.Generator) -> None:
    densities = normal(generator, 3, 60)  # of kinds that are equally good
    weights = stacked_weights(densities)
    assert torch.allclose(weights.sum(), torch.ones(()).double())

    def loss(logits: np.ndarray) -> float:
        weights = special.log_softmax(logits)[:, None]
        return -float(special.logsumexp(densities.numpy() + weights, axis=0).sum())

    best = optimize.minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-8})
    assert np.abs(weights.numpy() - special.softmax(best.x)).max() < 1e-3
    assert abs(loss(weights.log().numpy()) - best.fun) < 1e-4
    for bad in (-1e6, -torch.inf):  # hopeless kinds are left out
        densities[1] = bad
        weights = stacked_weights(densities)
        assert weights[1] == 0
        assert (weights[[0, 2]] > SMALLEST_WEIGHT).all()
        assert torch.allclose(weights[[0, 2]], stacked_weights(densities[[0, 2]]), atol=1e-6)


def test_folds_are_random_and_of_equal_sizes(generator: torch.Generator) -> None:
    inputs = uniform(generator, 20, 3)
    first, second = assign_folds(inputs, 4, generator), assign_folds(inputs, 4, generator)
    assert first.bincount().tolist() == second.bincount().tolist() == [5, 5, 5, 5]
    assert not torch.equal(first, second)
    assert assign_folds(inputs, 1, generator).tolist() == [0] * 20
    copies = torch.randint(20, (90,), generator=generator)  # share the fold of their row
    fold = assign_folds(inputs[copies], 4, generator)
    assert all(len(fold[copies == number].unique()) == 1 for number in copies.unique())


def test_near_copies_are_found_in_order(generator: torch.Generator) -> None:
    inputs = uniform(generator, 20, 3)
    copies = inputs[4:9] + 1e-4 * uniform(generator, 5, 3)
    assert distinct_rows(torch.cat((inputs, copies))).tolist() == list(range(20))
    assert distinct_rows(torch.zeros(4, 2, dtype=torch.float64)).tolist() == [0]
    chain = torch.arange(0, 1, 0.6 * NEAR, dtype=torch.float64)[:, None]  # is thinned, not lost
    assert distinct_rows(chain)[:3].tolist() == [0, 2, 4]
    assert len(distinct_rows(chain)) == (len(chain) + 1) // 2


def test_gradients_are_exact(generator: torch.Generator) -> None:
    model = small_surrogate(small_members(generator), bent_map(generator))
    inputs = uniform(generator, 2, 2, 2).requires_grad_()

    def moments(points: Tensor) -> tuple[Tensor, ...]:
        mean, covariance = model.predict_jointly(points, include_noise=True)
        return mean, covariance, *model.target_map.moments(mean, covariance)

    assert torch.autograd.gradcheck(moments, (inputs,))
