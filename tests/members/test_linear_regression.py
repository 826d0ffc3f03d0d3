from __future__ import annotations

import pytest
import torch
from builders.models import NOISE, SIGNAL, normal, observations
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from torch import Tensor

from sswim.members.linear_regression import (
    Posterior,
    leave_one_out,
    negative_log_evidence,
    posterior,
    statistics,
)
from sswim.members.model import Observations

pytest_plugins = ("builders.regression_rows",)


@pytest.mark.parametrize("n", [4, 15])
def test_evidence_with_noise_of_each_rows_own_against_the_dense_covariance(
    features: Tensor, targets: Tensor, log_precision: Tensor, n: int
) -> None:
    rows = observations(features, targets, None, log_precision).map(lambda t: t[:n])
    covariance = [
        SIGNAL[t] * rows.features @ rows.features.mT
        + (NOISE[t] * (-log_precision[:n, t]).exp()).diag()
        for t in range(2)
    ]
    dense = -sum(
        multivariate_normal.logpdf(rows.targets[:, t].numpy(), cov=covariance[t].numpy())
        for t in range(2)
    )
    ours = negative_log_evidence(statistics(rows), NOISE, SIGNAL)
    assert ours.item() == pytest.approx(dense, rel=1e-10)
    # And predictions against the formulas of a GP.
    test, test_precision = features[n // 2 :], log_precision[n // 2 :]
    fitted = posterior(statistics(rows), NOISE, SIGNAL)
    prediction = fitted.predict(test, test_precision)
    for t in range(2):
        cross = SIGNAL[t] * test @ rows.features.mT
        gain = torch.linalg.solve(covariance[t], cross, left=False)
        latent = SIGNAL[t] * test @ test.mT - gain @ cross.mT
        assert torch.allclose(prediction.mean[:, t], gain @ rows.targets[:, t], rtol=1e-9)
        assert torch.allclose(fitted.covariance(test)[t], latent, atol=1e-10)
        assert torch.allclose(prediction.latent_variance[:, t], latent.diagonal(), atol=1e-10)
        observed = latent.diagonal() + NOISE[t] / test_precision[:, t].exp()
        assert torch.allclose(prediction.observation_variance[:, t], observed, atol=1e-10)


def test_targets_with_noise_of_their_own_are_those_apart(
    features: Tensor, targets: Tensor, weight: Tensor, log_precision: Tensor
) -> None:
    together = statistics(observations(features, targets, weight, log_precision))
    assert together.gram.shape == (2, 6, 6)
    fitted = posterior(together, NOISE, SIGNAL)
    evidence = torch.zeros((), dtype=torch.float64)
    for t in range(2):
        one = slice(t, t + 1)
        alone = statistics(observations(features, targets[:, one], weight, log_precision[:, one]))
        assert torch.equal(together.gram[one], alone.gram)
        assert torch.allclose(together.moment[:, one], alone.moment, rtol=1e-13)
        evidence = evidence + negative_log_evidence(alone, NOISE[one], SIGNAL[one])
        apart = posterior(alone, NOISE[one], SIGNAL[one])
        assert torch.allclose(fitted.mean[:, one], apart.mean, rtol=1e-12)
        assert torch.allclose(fitted.factor[one], apart.factor, rtol=1e-12)
    assert negative_log_evidence(together, NOISE, SIGNAL).item() == pytest.approx(
        evidence.item(), rel=1e-12
    )


def test_predictions_against_scikit_learn(
    features: Tensor, targets: Tensor, generator: torch.Generator
) -> None:
    test = normal(generator, 8, 6)
    fitted = posterior(statistics(observations(features, targets)), NOISE, SIGNAL)
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


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("noise", ["constant", "own", "tempered"])
def test_leave_one_out_against_refits(
    features: Tensor,
    targets: Tensor,
    weight: Tensor,
    log_precision: Tensor,
    weighted: bool,
    noise: str,
) -> None:
    weights = weight if weighted else torch.ones_like(weight)
    precision = None if noise == "constant" else log_precision
    temper = torch.tensor([0.25, 0.75], dtype=torch.float64) if noise == "tempered" else None

    def fit(times: Tensor) -> Posterior:
        rows = observations(features, targets, times, precision, temper)
        return posterior(statistics(rows), NOISE, SIGNAL)

    rows = observations(features, targets, weight if weighted else None, precision, temper)
    closed_form = leave_one_out(rows, fit(weights))
    for row in range(15):
        less = weights.clone()
        less[row] -= 1  # one observation of the row, and there may be more of it
        at_row = None if precision is None else precision[row : row + 1]
        expected = fit(less).predict(features[row : row + 1], at_row)
        for ours, theirs in zip(closed_form.tensors(), expected.tensors(), strict=True):
            assert torch.allclose(ours[row], theirs[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("own_noise", [False, True])
def test_leave_one_out_of_a_light_row_leaves_all_of_it_out(
    features: Tensor, targets: Tensor, log_precision: Tensor, own_noise: bool
) -> None:
    precision = log_precision if own_noise else None
    weight = torch.ones(15, dtype=torch.float64)
    weight[3] = 0.25
    rows = observations(features, targets, weight, precision)
    closed_form = leave_one_out(rows, posterior(statistics(rows), NOISE, SIGNAL))
    weight = weight.clone()
    weight[3] = 0
    rows = observations(features, targets, weight, precision)
    refit = posterior(statistics(rows), NOISE, SIGNAL)
    expected = refit.predict(features[3:4], None if precision is None else precision[3:4])
    assert torch.allclose(closed_form.mean[3], expected.mean[0], rtol=1e-8)
    assert torch.allclose(
        closed_form.observation_variance[3], expected.observation_variance[0], rtol=1e-8
    )


def test_leave_one_out_variance_is_the_noise_over_one_minus_leverage(
    features: Tensor, targets: Tensor, log_precision: Tensor
) -> None:
    rows = observations(features, targets)
    fitted = posterior(statistics(rows), NOISE, SIGNAL)
    ours = leave_one_out(rows, fitted).observation_variance
    assert torch.allclose(ours, NOISE / (1 - fitted.leverage(features)), rtol=1e-12)
    rows = observations(features, targets, None, log_precision)
    fitted = posterior(statistics(rows), NOISE, SIGNAL)
    ours = leave_one_out(rows, fitted).observation_variance
    precision = log_precision.exp()
    expected = NOISE / precision / (1 - precision * fitted.leverage(features))
    assert torch.allclose(ours, expected, rtol=1e-12)


def test_updating_equals_refitting(features: Tensor, targets: Tensor) -> None:
    old = statistics(observations(features[:9], targets[:9]))
    new = statistics(observations(features[9:], targets[9:]))
    updated = posterior(old + new, NOISE, SIGNAL)
    refitted = posterior(statistics(observations(features, targets)), NOISE, SIGNAL)
    for ours, theirs in zip(updated.tensors(), refitted.tensors(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-11)


def test_sampled_weights_have_the_posterior_moments(
    features: Tensor, targets: Tensor, generator: torch.Generator
) -> None:
    fitted = posterior(statistics(observations(features, targets)), NOISE, SIGNAL)
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
    features: Tensor,
    targets: Tensor,
    weight: Tensor,
    log_precision: Tensor,
    generator: torch.Generator,
) -> None:
    """Check gradients with respect to all parts of the rows and to the variances."""
    log_slope = log_precision.flip(0)
    # Off the kink of min(c, 1), on either side.
    weight = torch.where(weight > 1, weight, 0.4)
    inputs = [features[:5], targets[:5], log_slope[:5], log_precision[:5], weight[:5]]
    temper = torch.tensor([1.0, 0.4], dtype=torch.float64)
    inputs = [tensor.clone().requires_grad_() for tensor in (*inputs, temper, NOISE, SIGNAL)]

    def sums(*rows: Tensor) -> tuple[Tensor, ...]:
        return tuple(statistics(Observations(*rows)).tensors())

    def evidence(*values: Tensor) -> Tensor:
        return negative_log_evidence(statistics(Observations(*values[:6])), *values[6:])

    def left_out(*values: Tensor) -> Tensor:
        rows = Observations(*values[:6])
        fitted = posterior(statistics(rows), *values[6:])
        return leave_one_out(rows, fitted).log_density(rows.targets) + rows.log_slope

    def constant_noise(*values: Tensor) -> tuple[Tensor, ...]:
        """Constant noise: one matrix for both targets."""
        phi, y, slope, c, noise, signal = values
        rows = Observations(phi, y, slope, None, c)
        fitted = posterior(statistics(rows), noise, signal)
        density = leave_one_out(rows, fitted).log_density(rows.targets)
        return negative_log_evidence(statistics(rows), noise, signal), density

    assert torch.autograd.gradcheck(sums, inputs[:6])
    assert torch.autograd.gradcheck(evidence, inputs)
    assert torch.autograd.gradcheck(left_out, inputs)
    assert torch.autograd.gradcheck(constant_noise, inputs[:3] + inputs[4:5] + inputs[6:])
