from __future__ import annotations

import functools
import math
import operator
from dataclasses import replace
from operator import itemgetter

import pytest
import torch
from builders.models import NOISE, SIGNAL, observations, relative_error, small_model, small_rows
from torch import Tensor

from sswim.base import record as record_module
from sswim.base.record import chunks
from sswim.members import linear_regression as statistics_module
from sswim.members.linear_regression import (
    Statistics,
    member_statistics,
    negative_log_evidence,
    posterior,
    statistics,
    sum_statistics,
    total_statistics,
    unpack_gram,
)
from sswim.members.model import Factors, Observations, observe
from sswim.rows import Rows

pytest_plugins = ("builders.regression_rows",)


def repeated(tensor: Tensor, weight: Tensor) -> Tensor:
    return tensor.repeat_interleave(weight.to(torch.int64), dim=0)


def assert_equal_statistics(actual: Statistics, expected: Statistics) -> None:
    for ours, theirs in zip(actual.tensors(), expected.tensors(), strict=True):
        assert torch.allclose(ours, theirs, rtol=1e-13, atol=1e-13)


def test_unit_precision_is_constant_noise(
    features: Tensor, targets: Tensor, weight: Tensor
) -> None:
    ones = statistics(observations(features, targets, weight, torch.zeros_like(targets)))
    plain = statistics(observations(features, targets, weight))
    assert plain.gram.shape == (1, 6, 6)
    for ours, theirs in zip(ones.tensors(), plain.tensors(), strict=True):
        assert torch.allclose(ours, theirs.expand_as(ours), rtol=1e-13)


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


def test_tempered_rows_have_milder_weights_but_are_predicted_with_all_of_their_noise(
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


def test_statistics_are_subtracted(features: Tensor, targets: Tensor, weight: Tensor) -> None:
    rows = observations(features, targets, weight)
    first, second = (statistics(rows.map(itemgetter(part))) for part in (slice(9), slice(9, None)))
    assert_equal_statistics(statistics(rows) - second, first)


@torch.no_grad()
def test_statistics_of_members_are_those_of_all_chunks(
    generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = small_rows(generator, weighted=True)
    members = [small_model(rows, generator, depth=depth).factors()[0] for depth in (0, 1)]
    expected = [statistics(observe(factors, rows)) for factors in members]
    sizes: list[int] = []

    def record(factors: Factors, chunk: Rows) -> Observations:
        sizes.append(len(chunk))
        return observe(factors, chunk)

    monkeypatch.setattr(record_module, "CPU_ROWS", 7)
    monkeypatch.setattr(statistics_module, "observe", record)
    for given in (rows, list(chunks(rows, 10))):
        for ours, theirs in zip(member_statistics(members, given), expected, strict=True):
            assert_equal_statistics(ours, theirs)
    assert sizes == [7] * 6 + [2] * 2 + [7, 7, 3, 3] * 2 + [3, 3]
    assert_equal_statistics(total_statistics(members[1], rows), expected[1])


def test_statistics_of_parts_are_added_up(features: Tensor, targets: Tensor) -> None:
    rows = observations(features, targets)
    parts = (statistics(part) for part in chunks(rows, 4))
    assert_equal_statistics(sum_statistics(parts), statistics(rows))


def test_no_chunk_is_refused(generator: torch.Generator) -> None:
    factors = small_model(small_rows(generator), generator).factors()[0]
    for call in (lambda: sum_statistics([]), lambda: total_statistics(factors, [])):
        with pytest.raises(ValueError, match=r"at least one chunk of rows\. Got none\."):
            call()


@pytest.mark.parametrize("own_gram", [False, True], ids=["one for all targets", "one for each"])
def test_packing_keeps_every_bit_of_the_gram_matrix(
    features: Tensor, targets: Tensor, weight: Tensor, own_gram: bool
) -> None:
    precision = targets.abs() if own_gram else None
    sums = statistics(observations(features, targets, weight, precision))
    packed = sums.packed_gram()
    n_features = features.shape[-1]
    assert packed.shape == (len(sums.gram), n_features * (n_features + 1) // 2)
    assert packed.nbytes == sums.packed_bytes()
    restored = unpack_gram(packed, n_features)
    assert torch.equal(restored.tril(), sums.gram.tril())  # the triangle that is read
    assert torch.equal(restored, restored.mT)
    ours, theirs = (
        posterior(replace(sums, gram=gram), NOISE, SIGNAL) for gram in (restored, sums.gram)
    )
    for mine, expected in zip(ours.tensors(), theirs.tensors(), strict=True):
        assert torch.equal(mine, expected)
