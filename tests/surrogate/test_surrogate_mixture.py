"""The mixture of members, and what it predicts of the targets."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from builders.models import normal
from builders.surrogates import bent_map, fitted_surrogate, small_gp, small_surrogate, uniform
from torch import Tensor

from sswim.surrogate.surrogate import InputRange


@torch.no_grad()
def test_moments_are_those_of_the_mixture(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator))
    inputs = uniform(generator, 3, 4, 2)
    mean, covariance = surrogate.joint(inputs)
    means, covariances = surrogate.gp.joint((inputs - 0.5)[:, None])
    for entry in range(3):
        first, second = torch.zeros(4).double(), torch.zeros(4, 4).double()  # E z, E zzᵀ
        for weight, m, c in zip(surrogate.weights, means[entry], covariances[entry], strict=True):
            first += weight * m
            second += weight * (c + torch.outer(m, m))
        assert torch.allclose(mean[entry], first, atol=1e-10)
        assert torch.allclose(covariance[entry], second - torch.outer(first, first), atol=1e-10)


@torch.no_grad()
def test_a_member_without_weight_changes_nothing(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator))
    weights = surrogate.weights.clone()
    weights[[1, 4]] = 0
    weights /= weights.sum()
    kept = weights.nonzero()[:, 0]
    with_all = replace(surrogate, weights=weights)
    without = replace(surrogate, gp=surrogate.gp.select(kept), weights=weights[kept])
    inputs = uniform(generator, 4, 2)
    for ours, theirs in zip(with_all.joint(inputs), without.joint(inputs), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-12)


@torch.no_grad()
def test_noise_is_added_to_the_diagonal(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator), bent_map(generator))
    inputs = uniform(generator, 4, 2)
    mean, covariance = surrogate.joint(inputs)
    same, noisy = surrogate.joint(inputs, include_noise=True)
    noise = (surrogate.weights * surrogate.gp.factors.noise).sum()
    assert torch.equal(same, mean)
    assert torch.allclose(noisy, covariance + noise * torch.eye(4), atol=1e-12)
    variance = uniform(generator, 4)
    _, known = surrogate.joint(inputs, variance=variance)
    targets = surrogate.target_map.inverse(mean)
    step = 1e-6
    slope = (
        surrogate.target_map.forward(targets + step)[0]
        - surrogate.target_map.forward(targets - step)[0]
    ) / (2 * step)
    assert torch.allclose(known, covariance + (slope**2 * variance).diag(), rtol=1e-6)
    _, one = surrogate.joint(inputs, variance=variance[:1])
    _, repeated = surrogate.joint(inputs, variance=variance[:1].expand(4))
    assert torch.equal(one, repeated)


@torch.no_grad()
def test_updates_map_targets_and_their_noise(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator), bent_map(generator))
    inputs, targets = uniform(generator, 3, 2), 3 + 0.5 * normal(generator, 3)
    mapped, slope = surrogate.target_map.forward(targets)
    for variance in (None, uniform(generator, 3), uniform(generator, 1)):
        updated = surrogate.update(inputs, targets, variance)
        rows = updated.gp.rows
        assert torch.equal(rows.inputs[-3:], inputs - 0.5)
        assert torch.equal(rows.targets[-3:], mapped)
        if variance is None:
            assert rows.variance is None
        else:
            assert rows.variance is not None
            assert torch.allclose(rows.variance[-3:], variance * slope**2)


@torch.no_grad()
def test_batched_updates_equal_plain_ones(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator), bent_map(generator))
    inputs, targets = uniform(generator, 2, 3, 2), 3 + 0.5 * normal(generator, 4, 2, 3)
    new = uniform(generator, 2, 5, 2)
    batched = surrogate.update(inputs, targets)
    assert batched.batch_shape == (4, 2)
    found = batched.joint(new)
    for i in range(4):
        for j in range(2):
            expected = surrogate.update(inputs[j], targets[i, j]).joint(new[j])
            for ours, theirs in zip(found, expected, strict=True):
                assert torch.allclose(ours[i, j], theirs, atol=1e-9)
    with pytest.raises(NotImplementedError, match=r"of shape \(4, 2\)"):
        batched.draw_paths(2, generator)


def test_gradients_are_exact(generator: torch.Generator) -> None:
    surrogate = small_surrogate(small_gp(generator), bent_map(generator))
    inputs = uniform(generator, 2, 2, 2).requires_grad_()

    def moments(points: Tensor) -> tuple[Tensor, ...]:
        mean, covariance = surrogate.joint(points, include_noise=True)
        return mean, covariance, *surrogate.target_map.moments(mean, covariance)

    assert torch.autograd.gradcheck(moments, (inputs,))


@torch.no_grad()
def test_a_fit_predicts_its_rows() -> None:
    surrogate = fitted_surrogate()
    rows = surrogate.gp.rows
    mean, covariance = surrogate.joint(rows.inputs + 0.5)
    assert torch.allclose(mean, rows.targets, atol=0.05)
    assert torch.linalg.eigvalsh(covariance).min() > -1e-8


def test_inputs_in_the_unit_cube_are_used_as_they_are(generator: torch.Generator) -> None:
    inputs = uniform(generator, 5, 2)
    assert torch.equal(InputRange.of(inputs).scale(inputs), inputs - 0.5)
    far = torch.stack((100 * inputs[:, 0], torch.full((5,), 7.0).double()), dim=1)
    scaled = InputRange.of(far).scale(far)
    assert torch.allclose(scaled.amin(0), torch.tensor([-0.5, -0.5]).double())
    assert torch.allclose(scaled.amax(0), torch.tensor([0.5, -0.5]).double())
