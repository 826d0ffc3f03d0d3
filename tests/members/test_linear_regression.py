"""The Bayesian linear regression on features: sums over rows, evidence, predictions, draws."""

from __future__ import annotations

import functools
import math
import operator
from operator import itemgetter

import pytest
import torch
from builders.models import (
    NOISE,
    SIGNAL,
    normal,
    observations,
    relative_error,
    small_model,
    small_rows,
)
from scipy.stats import multivariate_normal
from torch import Tensor

from sswim.base import record
from sswim.base.record import chunks
from sswim.members import linear_regression
from sswim.members.linear_regression import (
    Posterior,
    Statistics,
    leave_one_out,
    member_statistics,
    negative_log_evidence,
    posterior,
    statistics,
    sum_statistics,
    total_statistics,
    unpack_gram,
)
from sswim.members.model import Observations, observe

own_noise = pytest.mark.parametrize("own", [False, True], ids=["one noise", "noise of each row"])


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


def assert_same(actual: Statistics, expected: Statistics) -> None:
    for ours, theirs in zip(actual.tensors(), expected.tensors(), strict=True):
        assert torch.allclose(ours, theirs.expand_as(ours), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("n", [4, 15])  # fewer rows than features, and more
@own_noise
def test_evidence_and_predictions_against_the_dense_covariance(
    features: Tensor, targets: Tensor, log_precision: Tensor, n: int, own: bool
) -> None:
    precision = log_precision if own else torch.zeros_like(log_precision)
    rows = observations(features[:n], targets[:n], None, precision[:n] if own else None)
    covariance = [
        SIGNAL[t] * rows.features @ rows.features.mT + (NOISE[t] * (-precision[:n, t]).exp()).diag()
        for t in range(2)
    ]
    dense = -sum(
        multivariate_normal.logpdf(rows.targets[:, t].numpy(), cov=covariance[t].numpy())
        for t in range(2)
    )
    ours = negative_log_evidence(statistics(rows), NOISE, SIGNAL)
    assert ours.item() == pytest.approx(dense, rel=1e-10)
    test, test_precision = features[n // 2 :], precision[n // 2 :]
    fitted = posterior(statistics(rows), NOISE, SIGNAL)
    prediction = fitted.predict(test, test_precision if own else None)
    for t in range(2):
        cross = SIGNAL[t] * test @ rows.features.mT
        gain = torch.linalg.solve(covariance[t], cross, left=False)
        latent = SIGNAL[t] * test @ test.mT - gain @ cross.mT
        assert torch.allclose(prediction.mean[:, t], gain @ rows.targets[:, t], rtol=1e-9)
        assert torch.allclose(fitted.covariance(test)[t], latent, atol=1e-10)
        assert torch.allclose(prediction.latent_variance[:, t], latent.diagonal(), atol=1e-10)
        observed = latent.diagonal() + NOISE[t] / test_precision[:, t].exp()
        assert torch.allclose(prediction.observation_variance[:, t], observed, atol=1e-10)


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
    """One observation of each row is left out, and all of a row that counts less than once."""
    weight[3] = 0.25
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
        less[row] = (less[row] - 1).clamp(min=0)
        at_row = None if precision is None else precision[row : row + 1]
        expected = fit(less).predict(features[row : row + 1], at_row)
        for ours, theirs in zip(closed_form.tensors(), expected.tensors(), strict=True):
            assert torch.allclose(ours[row], theirs[0], rtol=1e-8, atol=1e-10)


# Sums over rows.


@own_noise
def test_statistics_in_any_chunking_and_order(
    features: Tensor,
    targets: Tensor,
    weight: Tensor,
    log_precision: Tensor,
    own: bool,
    generator: torch.Generator,
) -> None:
    log_slope = log_precision.flip(0)
    rows = Observations(features, targets, log_slope, log_precision if own else None, weight)
    whole = statistics(rows)
    for size in (1, 4, 7, 15, 99):
        parts = [statistics(part) for part in chunks(rows, size)]
        assert_same(sum_statistics(parts), whole)
        order = torch.randperm(len(parts), generator=generator).tolist()
        assert_same(functools.reduce(operator.add, [parts[i] for i in order]), whole)
    first, second = (statistics(rows.map(itemgetter(part))) for part in (slice(9), slice(9, None)))
    assert_same(whole - second, first)


def test_float32_chunks_do_not_lose_rows_among_many() -> None:
    """2²⁴ + 1 is not a float32: a running sum in single precision would stop growing there."""
    one = torch.ones(1, 1, dtype=torch.float32)
    target = torch.zeros(1, 1, dtype=torch.float64)
    many = statistics(observations(torch.full((1, 1), 2.0**12), target))
    total = many + statistics(observations(one, target))
    assert total.gram.item() == 2.0**24 + 1
    assert math.isclose(total.count.item(), 2)


@torch.no_grad()
def test_statistics_of_members_are_those_of_all_chunks(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = small_rows(generator, weighted=True)
    members = [small_model(rows, generator, depth=depth).factors()[0] for depth in (0, 1)]
    expected = [statistics(observe(factors, rows)) for factors in members]
    monkeypatch.setattr(record, "CPU_ROWS", 7)
    for given in (rows, list(chunks(rows, 10))):
        for ours, theirs in zip(member_statistics(members, given), expected, strict=True):
            assert_same(ours, theirs)
    assert_same(total_statistics(members[1], rows), expected[1])
    for call in (lambda: sum_statistics([]), lambda: total_statistics(members[0], [])):
        with pytest.raises(ValueError, match=r"at least one chunk of rows\. Got none\."):
            call()


@own_noise
def test_packing_keeps_every_bit_of_the_gram_matrix(
    features: Tensor, targets: Tensor, weight: Tensor, own: bool
) -> None:
    sums = statistics(observations(features, targets, weight, targets.abs() if own else None))
    packed = sums.packed_gram()
    assert packed.shape == (len(sums.gram), 21)
    assert packed.nbytes == sums.packed_bytes()
    restored = unpack_gram(packed, 6)
    assert torch.equal(restored.tril(), sums.gram.tril())  # the triangle that is read
    assert torch.equal(restored, restored.mT)


@pytest.mark.parametrize("n_features", [5, 131])  # in one product, and in uneven panels
@pytest.mark.parametrize("n_weights", [None, 1, 2])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_weighted_products_are_those_of_einsum(
    n_features: int, n_weights: int | None, batch: tuple[int, ...], generator: torch.Generator
) -> None:
    features, weighted = normal(generator, *batch, 40, n_features), normal(generator, *batch, 40, 2)
    weight = None if n_weights is None else normal(generator, 40, n_weights).exp()
    gram, moment = linear_regression._WeightedSums.apply(features, weighted, weight, False)
    wide = torch.ones(40, 1, dtype=torch.float64) if weight is None else weight
    expected = torch.einsum("...ni,ng,...nj->...gij", features, wide, features)
    assert gram.shape == expected.shape
    assert relative_error(gram, expected) < 1e-13
    assert relative_error(moment, features.mT @ weighted) < 1e-13
    assert relative_error(gram, gram.mT) < 1e-13


# Gradients.


def test_gradients_are_those_of_differences(
    features: Tensor, targets: Tensor, weight: Tensor, log_precision: Tensor
) -> None:
    """With respect to all parts of the rows and to the variances."""
    log_slope = log_precision.flip(0)
    # Off the kink of min(c, 1), on either side.
    weight = torch.where(weight > 1, weight, 0.4)
    inputs = [features[:5], targets[:5], log_slope[:5], log_precision[:5], weight[:5]]
    temper = torch.tensor([1.0, 0.4], dtype=torch.float64)
    inputs = [tensor.clone().requires_grad_() for tensor in (*inputs, temper, NOISE, SIGNAL)]

    def values(rows: Observations, noise: Tensor, signal: Tensor) -> tuple[Tensor, ...]:
        sums = statistics(rows)
        density = leave_one_out(rows, posterior(sums, noise, signal)).log_density(rows.targets)
        evidence = negative_log_evidence(sums, noise, signal)
        return (*sums.tensors(), evidence, density + rows.log_slope)

    def own(*given: Tensor) -> tuple[Tensor, ...]:
        return values(Observations(*given[:6]), *given[6:])

    def constant(*given: Tensor) -> tuple[Tensor, ...]:
        """Constant noise: one matrix for both targets."""
        phi, y, slope, c, noise, signal = given
        return values(Observations(phi, y, slope, None, c), noise, signal)

    assert torch.autograd.gradcheck(own, inputs)
    assert torch.autograd.gradcheck(constant, inputs[:3] + inputs[4:5] + inputs[6:])


@pytest.mark.parametrize("batch", [(), (2, 3)])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_gradients_of_batches_are_those_of_differences(
    batch: tuple[int, ...], weighted: bool, shared: bool, generator: torch.Generator
) -> None:
    """There are enough features to compute products in panels, which have different sizes."""
    rows = () if shared else batch
    targets, log_slope, log_precision = normal(generator, 3, *rows, 10, 2)
    noise, signal = normal(generator, 2, *batch, 2).exp()
    given = [normal(generator, *batch, 10, 131), targets, log_slope, noise, signal]
    given += [log_precision, normal(generator, *rows, 10).exp()] if weighted else []

    def evidence(*given: Tensor) -> Tensor:
        rows = Observations(*given[:3], *given[5:])
        return negative_log_evidence(statistics(rows), given[3], given[4])

    leaves = [tensor.clone().requires_grad_() for tensor in given]
    assert torch.autograd.gradcheck(evidence, leaves, fast_mode=True)
