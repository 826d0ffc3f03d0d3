from __future__ import annotations

import functools
import math
import operator
from dataclasses import replace

import pytest
import torch
from builders.models import normal, observations, relative_error
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from torch import Tensor

from sswim.base.record import chunks
from sswim.model.observations import Observations
from sswim.posterior.linear_regression import (
    Posterior,
    leave_one_out,
    negative_log_evidence,
    posterior,
)
from sswim.posterior.statistics import Statistics, statistics

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


@pytest.fixture
def log_precision(generator: torch.Generator) -> Tensor:
    """log w, different for every row and target."""
    return normal(generator, 15, 2)


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
    ours = negative_log_evidence(statistics(observations(features, targets)), NOISE, SIGNAL)
    assert ours.item() == pytest.approx(dense, rel=1e-10)


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
    # And predictions against the formulas of a Gaussian process.
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


def test_tempered_rows_are_weighed_as_if_their_noise_were_but_predicted_with_all_of_it(
    features: Tensor, targets: Tensor, weight: Tensor, log_precision: Tensor
) -> None:
    temper = torch.tensor([0.0, 0.5], dtype=torch.float64)
    ours = statistics(observations(features, targets, weight, log_precision, temper))
    milder = statistics(observations(features, targets, weight, temper * log_precision))
    assert_equal_statistics(ours, milder)
    fitted = posterior(ours, NOISE, SIGNAL)
    prediction = fitted.predict(features, log_precision)
    noise = prediction.observation_variance - prediction.latent_variance
    assert torch.allclose(noise, NOISE / log_precision.exp(), rtol=1e-10)


def test_unit_precision_is_constant_noise(
    features: Tensor, targets: Tensor, weight: Tensor
) -> None:
    ones = statistics(observations(features, targets, weight, torch.zeros_like(targets)))
    plain = statistics(observations(features, targets, weight))
    assert plain.gram.shape == (1, 6, 6)
    for ours, theirs in zip(ones.tensors(), plain.tensors(), strict=True):
        assert torch.allclose(ours, theirs.expand_as(ours), rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_of_an_output_warp_shift_the_evidence_by_their_sum(
    features: Tensor, targets: Tensor, weight: Tensor, log_precision: Tensor, weighted: bool
) -> None:
    times = weight if weighted else None
    log_slope = log_precision.flip(0)
    warped = Observations(features, targets, log_slope, log_precision, times)
    plain = observations(features, targets, times, log_precision)
    ours, theirs = (
        negative_log_evidence(statistics(rows), NOISE, SIGNAL) for rows in (warped, plain)
    )
    counted = log_slope * weight[:, None] if weighted else log_slope
    assert (theirs - ours).item() == pytest.approx(counted.sum().item(), rel=1e-12)


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


def test_log_density_is_that_of_the_observation(features: Tensor, targets: Tensor) -> None:
    prediction = posterior(statistics(observations(features, targets)), NOISE, SIGNAL).predict(
        features
    )
    expected = torch.distributions.Normal(
        prediction.mean, prediction.observation_variance.sqrt()
    ).log_prob(targets)
    assert torch.allclose(prediction.log_density(targets), expected)


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


@pytest.mark.parametrize("own_noise", [False, True])
def test_statistics_in_any_chunking_and_order(
    features: Tensor,
    targets: Tensor,
    weight: Tensor,
    log_precision: Tensor,
    own_noise: bool,
    generator: torch.Generator,
) -> None:
    log_slope = log_precision.flip(0)
    precision = log_precision if own_noise else None
    rows = Observations(features, targets, log_slope, precision, weight)
    whole = statistics(rows)
    for size in (1, 4, 7, 15, 99):
        parts = [statistics(part) for part in chunks(rows, size)]
        assert_equal_statistics(functools.reduce(operator.add, parts), whole)
        assert_equal_statistics(functools.reduce(operator.add, reversed(parts)), whole)
        order = torch.randperm(len(parts), generator=generator).tolist()
        assert_equal_statistics(functools.reduce(operator.add, [parts[i] for i in order]), whole)


@pytest.mark.parametrize("own_noise", [False, True])
def test_a_row_of_weight_two_is_the_row_twice(
    features: Tensor, targets: Tensor, weight: Tensor, log_precision: Tensor, own_noise: bool
) -> None:
    log_slope = log_precision.flip(0)
    once = Observations(features, targets, log_slope, log_precision if own_noise else None)
    weighted = statistics(replace(once, multiplicity=weight))
    twice = statistics(once.map(lambda tensor: repeated(tensor, weight)))
    assert_equal_statistics(weighted, twice)
    assert torch.allclose(
        negative_log_evidence(weighted, NOISE, SIGNAL),
        negative_log_evidence(twice, NOISE, SIGNAL),
        rtol=1e-13,
    )


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
    """In everything that rows are made of, and in the variances."""
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
        """Without log w: one matrix for both targets."""
        phi, y, slope, c, noise, signal = values
        rows = Observations(phi, y, slope, None, c)
        fitted = posterior(statistics(rows), noise, signal)
        density = leave_one_out(rows, fitted).log_density(rows.targets)
        return negative_log_evidence(statistics(rows), noise, signal), density

    torch.autograd.gradcheck(sums, inputs[:6])
    torch.autograd.gradcheck(evidence, inputs)
    torch.autograd.gradcheck(left_out, inputs)
    torch.autograd.gradcheck(constant_noise, inputs[:3] + inputs[4:5] + inputs[6:])


@pytest.mark.parametrize("n_weights", [0, 1, 2])
def test_the_gradient_of_sums_does_not_need_their_values(
    features: Tensor, targets: Tensor, log_precision: Tensor, weight: Tensor, n_weights: int
) -> None:
    given = [features, targets, torch.zeros_like(targets)]
    given += [[], [log_precision], [log_precision, weight]][n_weights]
    results = []
    for gradients_only in (False, True):
        leaves = [tensor.clone().requires_grad_() for tensor in given]
        sums = statistics(Observations(*leaves), gradients_only)
        directions = [normal(torch.Generator().manual_seed(3), *s.shape) for s in sums.tensors()]
        pairs = [(s, d) for s, d in zip(sums.tensors(), directions, strict=True) if s.requires_grad]
        results.append(torch.autograd.grad([s for s, _ in pairs], leaves, [d for _, d in pairs]))
    assert not sums.gram.any()
    for ours, expected in zip(*results, strict=True):
        assert torch.equal(ours, expected)


def test_float32_features_are_summed_and_factorised_in_float64(
    features: Tensor, targets: Tensor
) -> None:
    single = statistics(observations(features.float(), targets))
    assert {tensor.dtype for tensor in single.tensors()} == {torch.float64}
    exact = statistics(observations(features, targets))
    assert relative_error(single.gram, exact.gram) < 1e-6
    ours = posterior(single, NOISE, SIGNAL).predict(features.float())
    expected = posterior(exact, NOISE, SIGNAL).predict(features)
    assert ours.mean.dtype == torch.float64
    assert relative_error(ours.mean, expected.mean) < 1e-5
    assert relative_error(ours.latent_variance, expected.latent_variance) < 1e-5


def test_float32_chunks_do_not_lose_rows_among_many() -> None:
    """2²⁴ + 1 is not a float32: a running sum in single precision would stop growing there."""
    one = torch.ones(1, 1, dtype=torch.float32)
    target = torch.zeros(1, 1, dtype=torch.float64)
    many = statistics(observations(torch.full((1, 1), 2.0**12), target))
    total = many + statistics(observations(one, target))
    assert total.gram.item() == 2.0**24 + 1
    assert math.isclose(total.count.item(), 2)


def autograd_evidence(total: Statistics, noise: Tensor, signal: Tensor) -> Tensor:
    """The formula as it is written, differentiated through the factorisation."""
    n_features = total.gram.shape[-1]
    ridge = noise / signal
    identity = torch.eye(n_features, dtype=torch.float64)
    factor = torch.linalg.cholesky(total.gram + ridge[..., None, None] * identity)
    moment = total.moment.mT[..., None]
    explained = torch.linalg.solve_triangular(factor, moment, upper=False).square().sum((-2, -1))
    return (
        0.5 * (total.energy - explained) / noise
        + factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        - 0.5 * n_features * ridge.log()
        + 0.5 * total.count[..., None] * (2 * math.pi * noise).log()
        - total.log_scale
    ).sum(-1)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
@pytest.mark.parametrize("n_targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_gradients_in_closed_form_are_those_of_autograd(
    batch: tuple[int, ...],
    n_targets: int,
    weighted: bool,
    shared: bool,
    generator: torch.Generator,
) -> None:
    """For features enough that their products are taken in panels, and not a multiple of these."""
    n, n_features = 40, 131
    rows = () if shared else batch
    phi = normal(generator, *batch, n, n_features)
    z = normal(generator, *rows, n, n_targets)
    log_slope, log_precision = normal(generator, 2, *rows, n, n_targets)
    count = normal(generator, *rows, n).exp()
    noise, signal = normal(generator, 2, *batch, n_targets).exp()
    given = [phi, z, log_slope, noise, signal] + ([log_precision, count] if weighted else [])
    given = [tensor.clone().requires_grad_() for tensor in given]

    def observed(values: list[Tensor]) -> Observations:
        return Observations(*values[:3], *values[5:])

    ours = negative_log_evidence(statistics(observed(given)), given[3], given[4])
    ours_gradients = torch.autograd.grad(ours.sum(), given)
    others = [tensor.detach().clone().requires_grad_() for tensor in given]
    again = observed(others)
    weight = again.weight()
    wide = torch.ones(n, 1, dtype=torch.float64) if weight is None else weight
    total = statistics(again)
    exact = Statistics(
        gram=torch.einsum("...ni,...ng,...nj->...gij", again.features, wide, again.features),
        moment=again.features.mT @ (wide * again.targets),
        energy=(wide * again.targets.square()).sum(-2).expand(*batch, -1),
        log_scale=total.log_scale,
        count=total.count,
    )
    expected = autograd_evidence(exact, others[3], others[4])
    assert torch.allclose(ours, expected, rtol=1e-10)
    for mine, theirs in zip(
        ours_gradients, torch.autograd.grad(expected.sum(), others), strict=True
    ):
        assert relative_error(mine, theirs) < 1e-10
