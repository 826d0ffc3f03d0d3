from __future__ import annotations

import pytest
import torch
from builders.models import normal
from builders.surrogates import fitted_surrogate, uniform
from torch import Tensor

from sswim.members.exact_model import ExactKind
from sswim.surrogate import fitting
from sswim.surrogate.fitting import KINDS, N_FOLDS, SMALLEST_FOLDED, fit_surrogate
from sswim.surrogate.surrogate import Surrogate
from sswim.warps.output_warp import OutputMap

PLAIN = (ExactKind("matern52", monotone=True), ExactKind("rbf"))


def fit(
    inputs: Tensor, targets: Tensor, variance: Tensor | None = None, n_steps: int = 5, seed: int = 0
) -> Surrogate:
    generator = torch.Generator().manual_seed(seed)
    return fit_surrogate(inputs, targets, variance, generator, PLAIN, n_steps)


def test_weights_add_up_and_none_is_zero() -> None:
    surrogate = fitted_surrogate()
    assert torch.allclose(surrogate.weights.sum(), torch.ones(()).double())
    assert (surrogate.weights > 0).all()
    assert len(surrogate.weights) == len(surrogate.gp.kinds) == len(surrogate.gp.factors.mean)
    assert len(surrogate.weights) % N_FOLDS == 0
    assert not any(tensor.requires_grad for tensor in surrogate.gp.factors.tensors())


@pytest.mark.parametrize("n_rows", [1, 2, SMALLEST_FOLDED - 1])
def test_few_rows_are_not_folded(n_rows: int, generator: torch.Generator) -> None:
    surrogate = fit(uniform(generator, n_rows, 2), normal(generator, n_rows))
    assert torch.equal(surrogate.weights, torch.tensor([0.5, 0.5], dtype=torch.float64))
    mean, covariance = surrogate.joint(uniform(generator, 3, 2))
    assert mean.isfinite().all()
    assert covariance.isfinite().all()


def test_near_copies_of_rows_are_not_learnt_from(generator: torch.Generator) -> None:
    inputs = uniform(generator, 12, 2)
    targets = (5 * inputs).sin().sum(-1)
    near = inputs[:1] + 1e-4 * uniform(generator, 30, 2)
    more = torch.cat((inputs, near)), torch.cat((targets, (5 * near).sin().sum(-1)))
    one, other = fit(inputs, targets), fit(*more)
    assert torch.equal(one.weights, other.weights)
    assert torch.equal(one.gp.factors.length_scales, other.gp.factors.length_scales)
    assert torch.equal(one.target_map.spread, other.target_map.spread)
    assert other.gp.points.shape[1] == 42  # members are conditioned on all rows
    # Only near copies show that there is no noise.
    assert (other.gp.factors.noise < one.gp.factors.noise).all()


def test_copies_of_a_row_are_not_folded_apart(generator: torch.Generator) -> None:
    inputs = uniform(generator, SMALLEST_FOLDED - 1, 2).repeat(3, 1)
    assert len(fit(inputs, normal(generator, len(inputs))).weights) == 2


@torch.no_grad()
def test_noise_of_copies_is_learnt(generator: torch.Generator) -> None:
    inputs = uniform(generator, 10, 1).repeat(5, 1)
    targets = (5 * inputs[:, 0]).sin() + 0.1 * normal(generator, 50)
    surrogate = fit_surrogate(inputs, targets, None, generator, PLAIN, 60)
    mean, covariance = surrogate.joint(inputs[:1], include_noise=True)
    _, variance = surrogate.target_map.moments(mean, covariance)
    assert 0.06 < variance.sqrt().item() < 0.17


@torch.no_grad()
def test_training_explains_a_nonstationary_function(generator: torch.Generator) -> None:
    inputs = (torch.arange(30, dtype=torch.float64)[:, None] + 0.5) / 30
    new = uniform(generator, 50, 1)

    def function(x: Tensor) -> Tensor:
        return (12 * x[:, 0] ** 3).sin()  # flat, then a wave

    errors = []
    for n_steps in (1, 60):
        surrogate = fit(inputs, function(inputs), n_steps=n_steps)
        found = surrogate.target_map.inverse(surrogate.joint(new)[0])
        errors.append((found - function(new)).square().mean().sqrt())
    assert errors[1] < 0.01
    assert errors[1] < errors[0]
    monotone = fit_surrogate(inputs, function(inputs), None, generator, PLAIN[:1], 60)
    slopes = monotone.gp.factors.log_slopes[:, 0]
    assert (slopes[:, 1] < slopes[:, -2] - 0.2).all()  # the wave is stretched


@torch.no_grad()
def test_noise_is_learnt(generator: torch.Generator) -> None:
    inputs = uniform(generator, 60, 1)
    targets = 2 * inputs[:, 0] + 0.2 * normal(generator, 60)
    surrogate = fit_surrogate(inputs, targets, None, generator, KINDS, 80)
    middle = torch.tensor([[0.5]], dtype=torch.float64)
    mean, covariance = surrogate.joint(middle, include_noise=True)
    _, variance = surrogate.target_map.moments(mean, covariance)
    assert 0.15 < variance.sqrt().item() < 0.27


@torch.no_grad()
def test_known_noise_is_used_as_it_is(generator: torch.Generator) -> None:
    inputs = uniform(generator, 20, 1)
    targets, variance = normal(generator, 20), uniform(generator, 20)
    surrogate = fit(inputs, targets, variance)
    mapped, slope = surrogate.target_map.forward(targets)
    rows = surrogate.gp.rows
    assert rows.variance is not None
    assert torch.allclose(rows.variance, variance * slope.square())
    assert torch.allclose(rows.targets, mapped)
    assert surrogate.gp.factors.noise.max() < 1e-6


def test_members_learn_from_some_of_many_rows(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "LARGEST_TRAINED", 10)
    inputs = uniform(generator, 40, 1)
    surrogate = fit(inputs, inputs[:, 0].sin(), uniform(generator, 40))
    assert surrogate.gp.points.shape[1] == 40  # they are conditioned on all


def test_a_fit_is_repeated_by_its_seed(generator: torch.Generator) -> None:
    inputs, targets = uniform(generator, 12, 2), normal(generator, 12)
    one, same, other = (
        fit_surrogate(inputs, targets, None, torch.Generator().manual_seed(seed), KINDS[:1], 3)
        for seed in (1, 1, 2)
    )
    points = uniform(generator, 5, 2)
    assert torch.equal(one.joint(points)[0], same.joint(points)[0])
    assert not torch.equal(one.joint(points)[0], other.joint(points)[0])


@torch.no_grad()
def test_a_model_can_be_fitted_where_gradients_are_off(generator: torch.Generator) -> None:
    assert fit(uniform(generator, 9, 1), normal(generator, 9)).weights.isfinite().all()


def test_units_of_targets_do_not_matter(generator: torch.Generator) -> None:
    inputs, targets = uniform(generator, 12, 2), normal(generator, 12)
    points = uniform(generator, 5, 2)
    moments = []
    for offset, scale in ((0.0, 1.0), (-300.0, 100.0), (0.0, 1e-9)):
        surrogate = fit(inputs, offset + scale * targets)
        mean, covariance = surrogate.target_map.moments(*surrogate.joint(points))
        moments.append(((mean - offset) / scale, covariance / scale**2))
    for mean, covariance in moments[1:]:
        assert torch.allclose(mean, moments[0][0], atol=1e-6)
        assert torch.allclose(covariance, moments[0][1], atol=1e-6)


@torch.no_grad()
def test_constant_targets_stay_constant(generator: torch.Generator) -> None:
    surrogate = fit(uniform(generator, 10, 2), torch.full((10,), 3.7, dtype=torch.float64))
    points = uniform(generator, 5, 2)
    mean, covariance = surrogate.target_map.moments(*surrogate.joint(points))
    assert torch.allclose(mean, torch.full((5,), 3.7).double(), atol=1e-6)
    assert covariance.isfinite().all()
    assert isinstance(surrogate.target_map.warp, OutputMap)
