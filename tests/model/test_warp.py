from __future__ import annotations

import math

import pytest
import torch
from builders.models import normal, observations
from scipy.stats import multivariate_normal
from torch import Tensor

from sswim.model.features import expected_features
from sswim.model.pseudo_gp import PseudoGP, PseudoPrior, pseudo_gp_moments
from sswim.model.spectrum import Draw, Kernel
from sswim.model.warp import WarpLayer, warp
from sswim.posterior.linear_regression import posterior
from sswim.posterior.statistics import statistics
from sswim.rows.measure import Measure

PRIORS: tuple[PseudoPrior, ...] = ("whitened", "evidence")


def started(process: PseudoGP, generator: torch.Generator) -> PseudoGP:
    """A process away from its start."""
    n_inputs = process.pseudo_inputs.shape[1]
    kernel: Kernel = "matern32"
    draw: Draw = "orthogonal"
    scales = 0.5 + torch.rand(n_inputs, generator=generator, dtype=torch.float64)
    process.spectrum.start(kernel, draw, scales, generator)
    process.start(normal(generator, 40, n_inputs), torch.ones_like(scales), generator)
    with torch.no_grad():
        process.pseudo_targets.copy_(normal(generator, *process.pseudo_targets.shape))
        process.log_signal.fill_(math.log(0.4))
        process.log_noise.fill_(math.log(0.03))
    return process


def small_process(generator: torch.Generator, prior: PseudoPrior = "evidence") -> PseudoGP:
    return started(PseudoGP(3, 3, 1, n_frequencies=10, n_pseudo=7, prior=prior), generator)


def small_layer(generator: torch.Generator, joint: bool = False) -> WarpLayer:
    layer = WarpLayer(3, n_frequencies=10, n_pseudo=7, prior="evidence", joint=joint)
    for process in layer.gps():
        started(process, generator)
    return layer


def pseudo_covariance(process: PseudoGP) -> Tensor:
    features = expected_features(process.spectrum.frequencies(), Measure(process.pseudo_inputs))
    identity = torch.eye(len(features), dtype=torch.float64)
    signal, noise = process.log_signal.exp(), process.log_noise.exp()
    return (signal * features @ features.mT + noise * identity).detach()


@pytest.fixture
def points(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 12, 3))


@pytest.fixture
def uncertain(generator: torch.Generator) -> Measure:
    return Measure(normal(generator, 12, 3), 0.3 * normal(generator, 12, 3).square())


@pytest.mark.parametrize("kind", ["points", "uncertain"])
@torch.no_grad()
def test_the_dual_form_equals_weight_space(
    kind: str, request: pytest.FixtureRequest, generator: torch.Generator
) -> None:
    """Against Bayesian linear regression on the pseudo-data, itself checked in test_linear."""
    measure: Measure = request.getfixturevalue(kind)
    process = small_process(generator)
    frequencies = process.spectrum.frequencies()
    pseudo = expected_features(frequencies, Measure(process.pseudo_inputs))
    per_target = torch.ones(3, dtype=torch.float64)
    weights = posterior(
        statistics(observations(pseudo, process.pseudo_targets)),
        process.log_noise.exp() * per_target,
        process.log_signal.exp() * per_target,
    )
    expected = weights.predict(expected_features(frequencies, measure))
    moments = pseudo_gp_moments(process.condition()[0], measure)
    assert torch.allclose(moments.mean, expected.mean, rtol=1e-10, atol=1e-10)
    assert torch.allclose(moments.variance.expand(-1, 3), expected.latent_variance, atol=1e-10)


@torch.no_grad()
def test_the_prior_is_the_log_evidence_of_the_pseudo_targets(generator: torch.Generator) -> None:
    process = small_process(generator)
    covariance = pseudo_covariance(process).numpy()
    expected = -sum(
        multivariate_normal.logpdf(process.pseudo_targets[:, output].numpy(), cov=covariance)
        for output in range(3)
    )
    assert process.condition()[1].item() == pytest.approx(expected, rel=1e-10)


@torch.no_grad()
def test_both_priors_describe_the_same_process(points: Measure, generator: torch.Generator) -> None:
    """Y = Cε: the same moments, and priors that differ by the Jacobian of ε ↦ Y."""
    literal = small_process(generator, "evidence")
    whitened = PseudoGP(3, 3, 1, 10, 7, "whitened")
    whitened.load_state_dict(literal.state_dict())
    root = torch.linalg.cholesky(pseudo_covariance(literal))  # C
    whitened.pseudo_targets.copy_(torch.linalg.solve(root, literal.pseudo_targets))
    factors, prior = literal.condition()
    whitened_factors, whitened_prior = whitened.condition()
    ours, theirs = (pseudo_gp_moments(f, points) for f in (whitened_factors, factors))
    assert torch.allclose(ours.mean, theirs.mean, atol=1e-12)
    assert torch.equal(ours.variance, theirs.variance)
    jacobian = 3 * root.diagonal().log().sum()
    assert (prior - whitened_prior).item() == pytest.approx(jacobian.item(), rel=1e-10)


@torch.no_grad()
def test_tied_functions_are_processes_that_share_their_inputs(
    uncertain: Measure, generator: torch.Generator
) -> None:
    """Each has its own prior variance, and noise in proportion to it."""
    for prior in PRIORS:
        joint = started(PseudoGP(3, 3, 2, n_frequencies=10, n_pseudo=7, prior=prior), generator)
        joint.log_signal.copy_(torch.tensor([0.4, 1.7]).log())
        factors, negative_log_prior = joint.condition()
        together = pseudo_gp_moments(factors, uncertain)
        total = torch.zeros((), dtype=torch.float64)
        for number in range(2):
            outputs = slice(3 * number, 3 * number + 3)
            alone = PseudoGP(3, 3, 1, n_frequencies=10, n_pseudo=7, prior=prior)
            state = dict(joint.state_dict())
            state["log_signal"] = joint.log_signal[number : number + 1]
            state["log_noise"] = joint.log_noise + joint.log_signal[number] - joint.log_signal[0]
            state["pseudo_targets"] = joint.pseudo_targets[:, outputs]
            alone.load_state_dict(state)
            own_factors, own_prior = alone.condition()
            moments = pseudo_gp_moments(own_factors, uncertain)
            assert torch.allclose(moments.mean, together.mean[:, outputs], rtol=1e-10)
            assert torch.allclose(moments.variance[:, 0], together.variance[:, number], rtol=1e-10)
            total += own_prior
        assert negative_log_prior.item() == pytest.approx(total.item(), rel=1e-12)


@torch.no_grad()
def test_a_tied_warp_is_that_of_its_two_functions(
    uncertain: Measure, generator: torch.Generator
) -> None:
    layer = small_layer(generator, joint=True)
    [process] = layer.gps()
    factors = layer.condition()[0]
    parts = WarpLayer(3, n_frequencies=10, n_pseudo=7, prior="evidence", joint=False)
    for number, part in enumerate(parts.gps()):
        state = dict(process.state_dict())
        state["log_signal"] = process.log_signal[number : number + 1]
        state["log_noise"] = process.log_noise + process.log_signal[number] - process.log_signal[0]
        state["pseudo_targets"] = process.pseudo_targets[:, 3 * number : 3 * number + 3]
        part.load_state_dict(state)
    raw = Measure(uncertain.mean, input_variance=uncertain.variance)
    for measure in (Measure(uncertain.mean), uncertain, raw):
        ours, theirs = warp(factors, measure), warp(parts.condition()[0], measure)
        for mine, other in zip(ours.tensors(), theirs.tensors(), strict=True):
            assert torch.allclose(mine, other, rtol=1e-9, atol=1e-12)


@torch.no_grad()
def test_first_layer_against_sampled_warps(points: Measure, generator: torch.Generator) -> None:
    """Draws of the functions g and h given the pseudo-data, by their weights."""
    layer = small_layer(generator)
    n = 200_000
    values = []
    for process in layer.gps():
        frequencies = process.spectrum.frequencies()
        pseudo = expected_features(frequencies, Measure(process.pseudo_inputs))
        per_target = torch.ones(3, dtype=torch.float64)
        weights = posterior(
            statistics(observations(pseudo, process.pseudo_targets)),
            process.log_noise.exp() * per_target,
            process.log_signal.exp() * per_target,
        ).sample_weights(n, generator)
        values.append(expected_features(frequencies, Measure(points.mean[:4])) @ weights)
    draws = (1 + values[0]) * points.mean[:4] + values[1]
    warped = warp(layer.condition()[0], Measure(points.mean[:4]))
    assert_moments(warped, draws)


@torch.no_grad()
def test_deeper_layers_against_draws_under_the_same_independence(
    uncertain: Measure, generator: torch.Generator
) -> None:
    factors = small_layer(generator).condition()[0]
    assert uncertain.variance is not None
    n = 200_000

    def draw(mean: Tensor, variance: Tensor) -> Tensor:
        return mean + variance.sqrt() * normal(generator, n, 12, 3)

    g, h = (pseudo_gp_moments(process, uncertain) for process in factors.gps)
    draws = draw(1 + g.mean, g.variance) * draw(uncertain.mean, uncertain.variance)
    draws = draws + draw(h.mean, h.variance)
    assert_moments(warp(factors, uncertain), draws)


def assert_moments(warped: Measure, draws: Tensor) -> None:
    """Mean and variance within four standard errors of sampled ones."""
    assert warped.variance is not None
    n = len(draws)
    centred = draws - draws.mean(0)
    assert ((draws.mean(0) - warped.mean).abs() < 4 * draws.std(0) / math.sqrt(n)).all()
    squares = centred.square()
    error = (squares.mean(0) - warped.variance).abs()
    assert (error < 4 * squares.std(0) / math.sqrt(n)).all()


@torch.no_grad()
def test_zero_input_variance_gives_the_first_layer(
    points: Measure, generator: torch.Generator
) -> None:
    factors = small_layer(generator).condition()[0]
    certain = warp(factors, points)
    zero = warp(factors, Measure(points.mean, torch.zeros_like(points.mean)))
    assert torch.allclose(certain.mean, zero.mean, rtol=1e-13)
    assert certain.variance is not None
    assert zero.variance is not None
    assert torch.allclose(certain.variance, zero.variance, rtol=1e-12)


@torch.no_grad()
def test_identity_away_from_the_pseudo_points(generator: torch.Generator) -> None:
    """With many frequencies: the features of distant points are then nearly orthogonal."""
    layer = WarpLayer(2, n_frequencies=50_000, n_pseudo=6, prior="evidence", joint=False)
    for process in layer.gps():
        started(process, generator)
    factors = layer.condition()[0]
    near = Measure(layer.gps()[0].pseudo_inputs[:3])
    far = Measure(near.mean + 300)
    assert (warp(factors, near).mean - near.mean).abs().max() > 0.5
    warped = warp(factors, far)
    assert ((warped.mean - far.mean).abs() / far.mean.abs()).max() < 0.1
    # There the uncertainty is that of the prior: s²(x² + 1).
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
    for process in layer.gps():
        started(process, generator).pseudo_targets.zero_()
    assert torch.equal(warp(layer.condition()[0], points).mean, points.mean)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n_functions", [1, 2])
def test_gradients(
    prior: PseudoPrior, n_functions: int, uncertain: Measure, generator: torch.Generator
) -> None:
    process = PseudoGP(3, 2, n_functions, n_frequencies=3, n_pseudo=4, prior=prior)
    started(process, generator)
    names = [name for name, _ in process.named_parameters()]

    def moments(*values: Tensor) -> tuple[Tensor, ...]:
        def run(module: PseudoGP) -> tuple[Tensor, ...]:
            factors, prior = module.condition()
            moments = pseudo_gp_moments(factors, uncertain)
            return (moments.mean, moments.variance, prior)

        process.forward = run
        return torch.func.functional_call(
            process, dict(zip(names, values, strict=True)), (process,)
        )

    inputs = [parameter.detach().clone().requires_grad_() for parameter in process.parameters()]
    torch.autograd.gradcheck(moments, inputs)


@torch.no_grad()
def test_float32_moments_agree_with_float64(generator: torch.Generator) -> None:
    factors = small_layer(generator).condition()[0]
    measure = Measure(normal(generator, 50, 3))
    double = warp(factors, measure)
    single = warp(factors.to(dtype=torch.float32), measure.to(dtype=torch.float32))
    for ours, theirs in zip(single.tensors(), double.tensors(), strict=True):
        assert ours.dtype == torch.float32
        assert torch.allclose(ours.double(), theirs, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_more_pseudo_points_than_rows(generator: torch.Generator) -> None:
    process = PseudoGP(2, 2, 1, n_frequencies=4, n_pseudo=9, prior="whitened")
    process.start(normal(generator, 3, 2), torch.ones(2, dtype=torch.float64), generator)
    assert len(process.pseudo_inputs.unique(dim=0)) == 9


@torch.no_grad()
def test_an_uncertain_raw_input_is_passed_on_by_the_slope_of_the_warp(
    points: Measure, generator: torch.Generator
) -> None:
    """A little uncertainty, against draws of the raw input; independence would be far off."""
    factors = small_layer(generator).condition()[0]
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
def test_no_input_uncertainty_is_that_of_a_point(
    points: Measure, generator: torch.Generator
) -> None:
    factors = small_layer(generator).condition()[0]
    certain = warp(factors, points)
    zero = warp(factors, Measure(points.mean, input_variance=torch.zeros_like(points.mean)))
    assert torch.allclose(certain.mean, zero.mean, rtol=1e-12)
    assert certain.variance is not None
    assert zero.variance is not None
    assert zero.input_variance is not None
    assert torch.allclose(certain.variance, zero.variance, rtol=1e-12)
    assert not zero.input_variance.any()
