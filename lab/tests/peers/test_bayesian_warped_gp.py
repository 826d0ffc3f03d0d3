"""The Bayesian warped GP: its bound against evidences, and its fits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import normal
from lab_builders.peers import QUICK_BWGP, fitted_bwgp, rows, scalar, skewed_rows, warp_prior
from scipy import stats
from sswim_lab.peers.bayesian_warped_gp import (
    N_SCALARS,
    FittedBayesianWarpedGP,
    Parameters,
    evidence_bound,
    warp_posterior,
)
from sswim_lab.peers.dense_gp import GP, minimise, negative_log_evidence
from sswim_lab.peers.protocol import Fitted, Method, Predictive, StandardisedRows, standardise
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence


def random_point(generator: torch.Generator, training: StandardisedRows) -> Tensor:
    """A point of the optimiser whose grid of the warp covers the targets."""
    n_rows, n_inputs = training.x.shape
    point = 0.3 * normal(generator, n_inputs + N_SCALARS + 2 * n_rows)
    point[n_inputs + 1] = -1.0  # log τ
    point[n_inputs + 6] = -5.0
    point[n_inputs + 7] = np.log(10.0)
    return point


def best_bound(parameters: Parameters, training: StandardisedRows, n_points: int) -> float:
    """The best bound over q(f), with everything else fixed."""
    n_rows, n_inputs = training.x.shape

    def objective(point: Tensor) -> Tensor:
        return -evidence_bound(Parameters.from_point(point, n_inputs), training, n_points).value

    start = parameters.point()
    fixed = [(value, value) for value in start[: -2 * n_rows]]
    limits = [*fixed, *[(-9.0, 9.0)] * (2 * n_rows)]
    best = minimise(objective, [start], limits, torch.device("cpu"), 0, 200)
    return -objective(torch.as_tensor(best)).item()


@pytest.fixture
def fitted() -> FittedBayesianWarpedGP:
    return fitted_bwgp()


def test_the_divergence_and_marginals_of_f(generator: torch.Generator) -> None:
    training = standardise(*skewed_rows(9), "cpu")
    parameters = Parameters.from_point(random_point(generator, training), 2)
    eye = torch.eye(9).to(training.x)
    prior_covariance = parameters.kernel.matrix(training.x) + (2 * parameters.log_noise).exp() * eye
    precision = torch.diag((-parameters.log_pseudo_variance).exp())
    covariance = (prior_covariance.inverse() + precision).inverse()
    gap = parameters.pseudo_targets - parameters.offset
    mean = parameters.offset + covariance @ precision @ gap
    q = MultivariateNormal(mean, 0.5 * (covariance + covariance.mT))
    divergence = kl_divergence(q, MultivariateNormal(parameters.offset.expand(9), prior_covariance))
    warp = warp_posterior(parameters.prior, 10, training.y, mean, covariance.diagonal())
    expected = (warp.bound - divergence).item()
    assert evidence_bound(parameters, training, 10).value.item() == pytest.approx(
        expected, rel=1e-8
    )


def test_without_a_warp_the_bound_is_the_evidence(generator: torch.Generator) -> None:
    """The pseudo-targets are the targets, and their noise is the noise after the warp."""
    training = standardise(*skewed_rows(12), "cpu")
    parameters = Parameters.from_point(random_point(generator, training), 2)
    prior = replace(parameters.prior, log_amplitude=scalar(-12.0))
    parameters = replace(
        parameters,
        prior=prior,
        offset=scalar(0.0),
        pseudo_targets=training.y,
        log_pseudo_variance=(2 * prior.log_noise).expand(12),
    )
    log_noise = 0.5 * ((2 * parameters.log_noise).exp() + prior.noise_variance).log()
    expected = -negative_log_evidence(parameters.kernel, log_noise, training.x, training.y).item()
    assert evidence_bound(parameters, training, 10).value.item() == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize(("amplitude", "gap"), [(0.05, 0.02), (0.2, 0.2), (1.0, 1.5)])
def test_the_bound_is_below_the_evidence_and_comes_close(
    amplitude: float, gap: float, generator: torch.Generator
) -> None:
    """p(y) = ∫ N(y; f, c(f, f) + σ²I) p(f) df of three rows, by quadrature over f.

    The gap is the dependence between f and the warp, which a smaller warp makes smaller.
    """
    training = standardise(*skewed_rows(3), "cpu")
    drawn = Parameters.from_point(random_point(generator, training), 2)
    prior = replace(drawn.prior, log_amplitude=scalar(amplitude).log())
    parameters = replace(drawn, prior=prior)
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    nodes = torch.as_tensor(np.stack(np.meshgrid(points, points, points), -1).reshape(-1, 3))
    logs = np.log(weights / weights.sum())
    log_weights = torch.as_tensor(np.add.outer(np.add.outer(logs, logs), logs).reshape(-1))
    eye = torch.eye(3).to(nodes)
    covariance = parameters.kernel.matrix(training.x) + (2 * parameters.log_noise).exp() * eye
    f = parameters.offset + nodes @ torch.linalg.cholesky(covariance).mT
    distance = (f[:, :, None] - f[:, None, :]) * (-prior.log_length).exp()
    warped = prior.amplitude_variance * (-0.5 * distance.square()).exp()
    log_prob = MultivariateNormal(f, warped + prior.noise_variance * eye).log_prob(training.y)
    evidence = (log_weights + log_prob).logsumexp(0).item()

    assert evidence_bound(parameters, training, 30).value.item() < evidence
    assert evidence - gap < best_bound(parameters, training, 30) < evidence


def test_the_best_bound_of_a_constant_warp() -> None:
    """For h = c ~ N(0, α²) all is Gaussian, and the gap to the evidence has a closed form.

    The precision of (f, c) given y has the blocks P = K_f⁻¹ + I/σ², 1/σ² and p = N/σ² + 1/α². A q
    without the block between them misses ½(log|P| + log p − log|all|).
    """
    training = standardise(*skewed_rows(7), "cpu")
    parameters = Parameters.from_point(
        random_point(torch.Generator().manual_seed(1), training), training.x.shape[1]
    )
    parameters = replace(parameters, prior=warp_prior(length=1e4))
    eye, ones = torch.eye(7).to(training.x), torch.ones(7, 1, dtype=torch.float64)
    covariance = parameters.kernel.matrix(training.x) + (2 * parameters.log_noise).exp() * eye
    noise, amplitude = parameters.prior.noise_variance, parameters.prior.amplitude_variance
    block = covariance.inverse() + eye / noise
    last = (7 / noise + 1 / amplitude).reshape(1, 1)
    whole = torch.cat((torch.cat((block, ones / noise), 1), torch.cat((ones.mT / noise, last), 1)))
    evidence = MultivariateNormal(
        parameters.offset.expand(7), covariance + amplitude * ones @ ones.mT + noise * eye
    ).log_prob(training.y)
    missed = 0.5 * (block.logdet() + last.logdet() - whole.logdet())
    assert missed.item() > 0.1
    expected = (evidence - missed).item()
    assert best_bound(parameters, training, 4) == pytest.approx(expected, abs=1e-3)


def test_gradients(generator: torch.Generator) -> None:
    training = standardise(*skewed_rows(6), "cpu")

    def objective(point: Tensor) -> Tensor:
        return evidence_bound(Parameters.from_point(point, 2), training, 6).value

    point = random_point(generator, training)
    assert np.allclose(Parameters.from_point(point, 2).point(), point.numpy(), rtol=1e-12)
    torch.autograd.gradcheck(objective, (point.requires_grad_(),))


def test_as_a_method(fitted: FittedBayesianWarpedGP) -> None:
    assert isinstance(QUICK_BWGP, Method)
    assert isinstance(fitted, Fitted)
    assert QUICK_BWGP.settings()["n_points"] == 20
    assert QUICK_BWGP.max_rows == 5000
    x = skewed_rows(20, seed=1)[0]
    predictive = fitted.predict(x)
    assert isinstance(predictive, Predictive)
    assert np.array_equal(QUICK_BWGP.fit(*skewed_rows(), 1, "cpu").predict(x).mean, predictive.mean)


def test_skewed_targets_are_better_warped(fitted: FittedBayesianWarpedGP) -> None:
    test_x, test_y = skewed_rows(400, seed=1)
    warped = fitted.predict(test_x).log_density(test_y).mean()
    plain = GP().fit(*skewed_rows(), 0, "cpu").predict(test_x).log_density(test_y).mean()
    truth = np.mean(stats.lognorm.logpdf(test_y, 0.4, scale=np.exp(np.sin(2 * test_x[:, 0]))))
    assert warped > plain + 0.25
    assert warped > truth - 0.25


def test_small_units_and_a_constant_column() -> None:
    x, y = rows(50)
    test_x, test_y = rows(200, seed=1)
    predictive = QUICK_BWGP.fit(x, y, 0, "cpu").predict(test_x)
    assert np.sqrt(np.mean((predictive.mean - test_y) ** 2)) < 0.4 * y.std()
    lower, upper = predictive.interval(0.9)
    assert 0.75 < np.mean((lower <= test_y) & (test_y <= upper)) < 0.99


def test_a_target_that_never_varies() -> None:
    x, _ = rows(20)
    predictive = QUICK_BWGP.fit(x, np.full(20, 3.0), 0, "cpu").predict(x)
    assert np.allclose(predictive.mean, 3, atol=0.05)
    assert np.isfinite(predictive.log_density(np.full(20, 3.0))).all()
