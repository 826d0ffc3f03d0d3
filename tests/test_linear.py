from __future__ import annotations

import functools
import math
import operator

import pytest
import torch
from helpers import normal, relative_error
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from torch import Tensor

from sswim.linear import (
    Statistics,
    gram,
    leave_one_out,
    negative_log_evidence,
    posterior,
    statistics,
)

NOISE = torch.tensor([0.1, 0.4], dtype=torch.float64)
SIGNAL = torch.tensor([2.0, 0.5], dtype=torch.float64)


@pytest.fixture
def features(generator: torch.Generator) -> Tensor:
    return normal(generator, 15, 6)


@pytest.fixture
def targets(generator: torch.Generator, features: Tensor) -> Tensor:
    return features @ normal(generator, 6, 2) + 0.3 * normal(generator, 15, 2)


@pytest.fixture
def weight(generator: torch.Generator) -> Tensor:
    return torch.randint(1, 4, (15,), generator=generator).to(torch.float64)


def repeated(tensor: Tensor, weight: Tensor) -> Tensor:
    return tensor.repeat_interleave(weight.to(torch.int64), dim=0)


def assert_equal_statistics(actual: Statistics, expected: Statistics) -> None:
    for ours, theirs in zip(actual.tensors(), expected.tensors(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [4, 15])  # fewer rows than features, and more
def test_evidence_against_the_dense_covariance(features: Tensor, targets: Tensor, n: int) -> None:
    features, targets = features[:n], targets[:n]
    dense = -sum(
        multivariate_normal.logpdf(
            targets[:, t].numpy(),
            cov=(
                SIGNAL[t] * features @ features.mT + NOISE[t] * torch.eye(n, dtype=torch.float64)
            ).numpy(),
        )
        for t in range(2)
    )
    ours = negative_log_evidence(statistics(features, targets), NOISE, SIGNAL)
    assert ours.item() == pytest.approx(dense, rel=1e-10)


def test_predictions_against_scikit_learn(
    features: Tensor, targets: Tensor, generator: torch.Generator
) -> None:
    test = normal(generator, 8, 6)
    fitted = posterior(statistics(features, targets), NOISE, SIGNAL)
    ours, covariance = fitted.predict(test), fitted.covariance(test)
    for t in range(2):
        kernel = ConstantKernel(SIGNAL[t].item()) * DotProduct(sigma_0=1e-9)
        reference = GaussianProcessRegressor(kernel, alpha=NOISE[t].item(), optimizer=None)
        reference.fit(features.numpy(), targets[:, t].numpy())
        mean, joint = reference.predict(test.numpy(), return_cov=True)
        joint = torch.from_numpy(joint)
        assert torch.allclose(ours.mean[:, t], torch.from_numpy(mean), rtol=1e-9)
        assert torch.allclose(covariance[t], joint, atol=1e-10)
        assert torch.allclose(ours.latent_variance[:, t], joint.diagonal(), atol=1e-10)
        observed = joint.diagonal() + NOISE[t]
        assert torch.allclose(ours.observation_variance[:, t], observed, atol=1e-10)


def test_log_density_is_that_of_the_observation(features: Tensor, targets: Tensor) -> None:
    prediction = posterior(statistics(features, targets), NOISE, SIGNAL).predict(features)
    expected = torch.distributions.Normal(
        prediction.mean, prediction.observation_variance.sqrt()
    ).log_prob(targets)
    assert torch.allclose(prediction.log_density(targets), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_against_refits(
    features: Tensor, targets: Tensor, weight: Tensor, weighted: bool
) -> None:
    weights = weight if weighted else torch.ones_like(weight)
    fitted = posterior(statistics(features, targets, weights), NOISE, SIGNAL)
    closed_form = leave_one_out(features, targets, fitted, weight if weighted else None)
    for row in range(15):
        less = weights.clone()
        less[row] -= 1  # one observation of the row, and there may be more of it
        refit = posterior(statistics(features, targets, less), NOISE, SIGNAL)
        expected = refit.predict(features[row : row + 1])
        for ours, theirs in zip(closed_form.tensors(), expected.tensors(), strict=True):
            assert torch.allclose(ours[row], theirs[0], rtol=1e-8, atol=1e-10)


def test_leave_one_out_of_a_light_row_leaves_all_of_it_out(
    features: Tensor, targets: Tensor
) -> None:
    weight = torch.ones(15, dtype=torch.float64)
    weight[3] = 0.25
    fitted = posterior(statistics(features, targets, weight), NOISE, SIGNAL)
    closed_form = leave_one_out(features, targets, fitted, weight)
    weight[3] = 0
    refit = posterior(statistics(features, targets, weight), NOISE, SIGNAL)
    expected = refit.predict(features[3:4])
    assert torch.allclose(closed_form.mean[3], expected.mean[0], rtol=1e-8)
    assert torch.allclose(
        closed_form.observation_variance[3], expected.observation_variance[0], rtol=1e-8
    )


def test_leave_one_out_variance_is_the_noise_over_one_minus_leverage(
    features: Tensor, targets: Tensor
) -> None:
    fitted = posterior(statistics(features, targets), NOISE, SIGNAL)
    ours = leave_one_out(features, targets, fitted).observation_variance
    assert torch.allclose(ours, NOISE / (1 - fitted.leverage(features)), rtol=1e-12)


def test_statistics_in_any_chunking_and_order(
    features: Tensor, targets: Tensor, weight: Tensor, generator: torch.Generator
) -> None:
    whole = statistics(features, targets, weight)
    for size in (1, 4, 7, 15, 99):
        parts = [
            statistics(*part)
            for part in zip(*(t.split(size) for t in (features, targets, weight)), strict=True)
        ]
        assert_equal_statistics(functools.reduce(operator.add, parts), whole)
        assert_equal_statistics(functools.reduce(operator.add, reversed(parts)), whole)
        order = torch.randperm(len(parts), generator=generator).tolist()
        assert_equal_statistics(functools.reduce(operator.add, [parts[i] for i in order]), whole)


def test_a_row_of_weight_two_is_the_row_twice(
    features: Tensor, targets: Tensor, weight: Tensor
) -> None:
    weighted = statistics(features, targets, weight)
    twice = statistics(repeated(features, weight), repeated(targets, weight))
    assert_equal_statistics(weighted, twice)
    assert torch.allclose(
        negative_log_evidence(weighted, NOISE, SIGNAL),
        negative_log_evidence(twice, NOISE, SIGNAL),
        rtol=1e-13,
    )


def test_updating_equals_refitting(features: Tensor, targets: Tensor) -> None:
    old = statistics(features[:9], targets[:9])
    updated = posterior(old + statistics(features[9:], targets[9:]), NOISE, SIGNAL)
    refitted = posterior(statistics(features, targets), NOISE, SIGNAL)
    for ours, theirs in zip(updated.tensors(), refitted.tensors(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-11)


def test_sampled_weights_have_the_posterior_moments(
    features: Tensor, targets: Tensor, generator: torch.Generator
) -> None:
    fitted = posterior(statistics(features, targets), NOISE, SIGNAL)
    n = 200_000
    draws = fitted.sample_weights(n, generator)
    test = normal(generator, 4, 6)
    values = (test @ draws).permute(2, 0, 1)  # (T, n, 4)
    covariance = fitted.covariance(test)
    for t in range(2):
        variance = covariance[t].diagonal()
        error = (values[t].mean(0) - fitted.predict(test).mean[:, t]).abs()
        assert (error < 4 * (variance / n).sqrt()).all()
        # The standard error of a Gaussian sample covariance.
        spread = ((variance[:, None] * variance + covariance[t].square()) / n).sqrt()
        assert ((values[t].mT.cov() - covariance[t]).abs() < 4 * spread).all()


def test_gradients(
    features: Tensor, targets: Tensor, weight: Tensor, generator: torch.Generator
) -> None:
    inputs = [features[:5], targets[:5], weight[:5], NOISE, SIGNAL]
    inputs = [tensor.clone().requires_grad_() for tensor in inputs]

    def evidence(phi: Tensor, y: Tensor, w: Tensor, noise: Tensor, signal: Tensor) -> Tensor:
        return negative_log_evidence(statistics(phi, y, w), noise, signal)

    def left_out(phi: Tensor, y: Tensor, w: Tensor, noise: Tensor, signal: Tensor) -> Tensor:
        fitted = posterior(statistics(phi, y, w), noise, signal)
        return leave_one_out(phi, y, fitted).log_density(y)

    torch.autograd.gradcheck(evidence, inputs)
    torch.autograd.gradcheck(left_out, inputs)
    torch.autograd.gradgradcheck(
        gram, inputs[:1] + inputs[2:3], grad_outputs=normal(generator, 6, 6).requires_grad_()
    )


def test_float32_features_are_summed_and_factorised_in_float64(
    features: Tensor, targets: Tensor
) -> None:
    single = statistics(features.float(), targets)
    assert {tensor.dtype for tensor in single.tensors()} == {torch.float64}
    exact = statistics(features, targets)
    assert relative_error(single.gram, exact.gram) < 1e-6
    ours = posterior(single, NOISE, SIGNAL).predict(features.float())
    expected = posterior(exact, NOISE, SIGNAL).predict(features)
    assert ours.mean.dtype == torch.float64
    assert relative_error(ours.mean, expected.mean) < 1e-5
    assert relative_error(ours.latent_variance, expected.latent_variance) < 1e-5


def test_float32_chunks_do_not_lose_rows_among_many() -> None:
    """2²⁴ + 1 is not a float32: a running sum in single precision would stop growing there."""
    one = torch.ones(1, 1, dtype=torch.float32)
    many = statistics(torch.full((1, 1), 2.0**12), torch.zeros(1, 1, dtype=torch.float64))
    total = many + statistics(one, torch.zeros(1, 1, dtype=torch.float64))
    assert total.gram.item() == 2.0**24 + 1
    assert math.isclose(total.count.item(), 2)
