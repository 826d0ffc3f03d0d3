from __future__ import annotations

import math

import pytest
import torch
from builders.models import assert_moments, move_gp, normal, observations
from torch import Tensor

from sswim.kernels import expected_features
from sswim.members.linear_regression import posterior, statistics
from sswim.rows import Measure
from sswim.warps import PseudoPrior, WarpLayer, pseudo_gp_moments
from sswim.warps.warp import warp

PRIORS: tuple[PseudoPrior, ...] = ("whitened", "evidence")


def small_layer(generator: torch.Generator, joint: bool = False) -> WarpLayer:
    layer = WarpLayer(3, n_frequencies=10, n_pseudo=7, prior="evidence", joint=joint)
    for gp in layer.gps():
        move_gp(gp, generator)
    return layer


@pytest.fixture
def points(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 12, 3))


@pytest.fixture
def uncertain(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 12, 3), 0.3 * normal(generator, 12, 3).square())


@torch.no_grad()
def test_a_joint_warp_equals_the_warp_of_two_gps(
    uncertain: Measure, generator: torch.Generator
) -> None:
    layer = small_layer(generator, joint=True)
    [gp] = layer.gps()
    factors = layer.factors()[0]
    parts = WarpLayer(3, n_frequencies=10, n_pseudo=7, prior="evidence", joint=False)
    for number, part in enumerate(parts.gps()):
        state = dict(gp.state_dict())
        state["log_signal"] = gp.log_signal[number : number + 1]
        state["log_noise"] = gp.log_noise + gp.log_signal[number] - gp.log_signal[0]
        state["pseudo_targets"] = gp.pseudo_targets[:, 3 * number : 3 * number + 3]
        part.load_state_dict(state)
    raw = Measure(uncertain.mean, input_variance=uncertain.variance)
    for measure in (Measure(uncertain.mean), uncertain, raw):
        ours, theirs = warp(factors, measure), warp(parts.factors()[0], measure)
        for mine, other in zip(ours.tensors(), theirs.tensors(), strict=True):
            assert torch.allclose(mine, other, rtol=1e-9, atol=1e-12)


@torch.no_grad()
def test_first_layer_against_sampled_warps(points: Measure, generator: torch.Generator) -> None:
    """Compared with draws of the functions g and h given the pseudo-data."""
    layer = small_layer(generator)
    n = 200_000
    values = []
    for gp in layer.gps():
        frequencies = gp.spectrum.frequencies()
        pseudo = expected_features(frequencies, Measure(gp.pseudo_inputs))
        per_target = torch.ones(3, dtype=torch.float64)
        weights = posterior(
            statistics(observations(pseudo, gp.pseudo_targets)),
            gp.log_noise.exp() * per_target,
            gp.log_signal.exp() * per_target,
        ).sample_weights(n, generator)
        values.append(expected_features(frequencies, Measure(points.mean[:4])) @ weights)
    draws = (1 + values[0]) * points.mean[:4] + values[1]
    warped = warp(layer.factors()[0], Measure(points.mean[:4]))
    assert_moments(warped, draws)


@torch.no_grad()
def test_deeper_layers_against_draws_under_the_same_independence(
    uncertain: Measure, generator: torch.Generator
) -> None:
    factors = small_layer(generator).factors()[0]
    assert uncertain.variance is not None
    n = 200_000

    def draw(mean: Tensor, variance: Tensor) -> Tensor:
        return mean + variance.sqrt() * normal(generator, n, 12, 3)

    g, h = (pseudo_gp_moments(gp, uncertain) for gp in factors.gps)
    draws = draw(1 + g.mean, g.variance) * draw(uncertain.mean, uncertain.variance)
    draws = draws + draw(h.mean, h.variance)
    assert_moments(warp(factors, uncertain), draws)


@torch.no_grad()
def test_zero_input_variance_gives_the_first_layer(
    points: Measure, generator: torch.Generator
) -> None:
    factors = small_layer(generator).factors()[0]
    certain = warp(factors, points)
    zero = warp(factors, Measure(points.mean, torch.zeros_like(points.mean)))
    assert torch.allclose(certain.mean, zero.mean, rtol=1e-13)
    assert certain.variance is not None
    assert zero.variance is not None
    assert torch.allclose(certain.variance, zero.variance, rtol=1e-12)


@torch.no_grad()
def test_identity_away_from_the_pseudo_points(generator: torch.Generator) -> None:
    """With many frequencies, so that the features of distant points are nearly orthogonal."""
    layer = WarpLayer(2, n_frequencies=50_000, n_pseudo=6, prior="evidence", joint=False)
    for gp in layer.gps():
        move_gp(gp, generator)
    factors = layer.factors()[0]
    near = Measure(layer.gps()[0].pseudo_inputs[:3])
    far = Measure(near.mean + 300)
    assert (warp(factors, near).mean - near.mean).abs().max() > 0.5
    warped = warp(factors, far)
    assert ((warped.mean - far.mean).abs() / far.mean.abs()).max() < 0.1
    # There the variance is that of the prior: s²(x² + 1).
    prior_variance = 0.4 * (far.mean.square() + 1)
    assert warped.variance is not None
    assert torch.allclose(warped.variance, prior_variance, rtol=0.02)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("joint", [False, True])
@torch.no_grad()
def test_a_warp_starts_as_the_identity(
    prior: PseudoPrior, joint: bool, points: Measure, generator: torch.Generator
) -> None:
    layer = WarpLayer(3, 10, 7, prior, joint)
    for gp in layer.gps():
        move_gp(gp, generator).pseudo_targets.zero_()
    assert torch.equal(warp(layer.factors()[0], points).mean, points.mean)


@torch.no_grad()
def test_float32_moments_agree_with_float64(generator: torch.Generator) -> None:
    factors = small_layer(generator).factors()[0]
    measure = Measure(normal(generator, 50, 3))
    double = warp(factors, measure)
    single = warp(factors.to(dtype=torch.float32), measure.to(dtype=torch.float32))
    for ours, theirs in zip(single.tensors(), double.tensors(), strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours.double(), theirs, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_an_uncertain_raw_input_is_passed_on_by_the_slope_of_the_warp(
    points: Measure, generator: torch.Generator
) -> None:
    """With a small uncertainty, against draws of the raw input; independence would be far off."""
    factors = small_layer(generator).factors()[0]
    root = 1e-2 * normal(generator, 12, 3, 3)
    covariance = root @ root.mT + 1e-5 * torch.eye(3, dtype=torch.float64)
    passed = warp(factors, Measure(points.mean, input_variance=covariance))
    assert passed.input_variance is not None
    n = 100_000
    for row in range(12):
        root = torch.linalg.cholesky(covariance[row])
        draws = points.mean[row] + normal(generator, n, 3) @ root.mT
        means = warp(factors, Measure(draws)).mean
        standard_error = means.std(0) / math.sqrt(n)
        assert ((means.mean(0) - passed.mean[row]).abs() < 5 * standard_error + 1e-4).all()
        expected = means.mT.cov()
        error = (passed.input_variance[row] - expected).abs().max()
        assert error < 0.05 * expected.abs().max()


@torch.no_grad()
def test_zero_input_covariance_gives_the_warp_of_a_point(
    points: Measure, generator: torch.Generator
) -> None:
    factors = small_layer(generator).factors()[0]
    certain = warp(factors, points)
    zero = warp(factors, Measure(points.mean, input_variance=torch.zeros_like(points.mean)))
    assert torch.allclose(certain.mean, zero.mean, rtol=1e-12)
    assert certain.variance is not None
    assert zero.variance is not None
    assert zero.input_variance is not None
    assert torch.allclose(certain.variance, zero.variance, rtol=1e-12)
    assert not zero.input_variance.any()
