from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import torch
from builders.models import normal
from torch import Tensor

from sswim.distributed.processes import Processes
from sswim.rows import (
    ArraySource,
    Chunk,
    IterableSource,
    MemorySource,
    Rows,
    RowSampler,
    Summary,
    as_chunk,
    as_rows,
    describe,
    has_ties,
    sample_keys,
    smallest_keys,
    summarise,
    target_resolution,
    warn_about_targets,
)

N_ROWS = 701


def arrays(weighted: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    random = np.random.default_rng(1)
    x = random.normal(size=(N_ROWS, 4)) * [1.0, 1e-160, 1e160, 0.0] + [1e6, 0.0, 0.0, 0.1]
    y = random.normal(size=(N_ROWS, 2)) * [3.0, 1e-3] - 7
    return x, y, random.integers(0, 3, N_ROWS).astype(float) if weighted else None


def assert_same(ours: Summary, theirs: Summary) -> None:
    assert ours.n_rows == theirs.n_rows
    assert ours.weight == theirs.weight
    for mine, other in zip(ours.scaling.tensors(), theirs.scaling.tensors(), strict=True):
        assert torch.allclose(mine, other, rtol=1e-9, atol=0)
    assert torch.equal(ours.lowest, theirs.lowest)
    assert torch.equal(ours.highest, theirs.highest)
    for mine, other in zip(ours.sample.tensors(), theirs.sample.tensors(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [5, 700, N_ROWS])
@pytest.mark.parametrize("most", [100, N_ROWS])
def test_a_source_has_the_same_summary_in_any_chunks(
    weighted: bool, size: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.rows.summary.SAMPLE_ROWS", most)
    x, y, weight = arrays(weighted)
    cuts = [slice(first, first + size) for first in range(0, N_ROWS, size)]
    chunks = [(x[cut], y[cut], *([] if weight is None else [weight[cut]])) for cut in cuts]
    found = summarise(IterableSource(chunks))
    assert_same(found, summarise(ArraySource(x, y, weight)))
    assert found.complete == (most == N_ROWS)
    assert found.scaling.input_spread[3] == 1  # a constant column keeps its unit


def test_what_tells_rows_from_others() -> None:
    x, y, _ = arrays(weighted=False)
    facts = describe(summarise(MemorySource(as_rows(x, y))), ["a", "b", "c", "d"])
    assert facts["rows"] == N_ROWS
    assert list(facts["columns"]) == ["a", "b", "c", "d", "target 0", "target 1"]
    assert float(facts["columns"]["target 0"]["mean"]) == pytest.approx(y[:, 0].mean(), rel=1e-8)


@pytest.mark.parametrize("most", [100, N_ROWS])
def test_a_wild_value_is_found_outside_the_sample_as_well(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sswim.rows.summary.SAMPLE_ROWS", most)
    x, y, _ = arrays(weighted=False)
    usual = summarise(ArraySource(x, y)).scaling
    outside = summarise(ArraySource(np.arange(N_ROWS)[:, None], y)).sample.inputs.mean[:, 0]
    row = next(n for n in range(N_ROWS) if most == N_ROWS or n not in outside.tolist())
    x[row, 0] = 1e15
    with pytest.warns(UserWarning, match="Column 0 of X has a value, 1e\\+15"):
        scaling = summarise(ArraySource(x, y)).scaling
    assert scaling.input_spread[0].item() == pytest.approx(usual.input_spread[0].item(), rel=0.2)
    assert torch.equal(scaling.input_spread[1:], usual.input_spread[1:])
    assert scaling.input_high[0] < 1e6 + 10
    assert scaling.input_high[1:].isinf().all()


def test_points_on_a_sphere_share_a_spread_and_are_never_wild() -> None:
    """Most of them are in a small town on top of it."""
    random = np.random.default_rng(0)
    near = np.column_stack((1e-4 * random.normal(size=(500, 2)), np.ones(500)))
    points = np.concatenate((near, random.normal(size=(100, 3))))
    x = points / np.linalg.norm(points, axis=1, keepdims=True)
    source = ArraySource(np.column_stack((x, x[:, :1])), x[:, 0])
    source.isotropic = ((0, 1, 2),)
    scaling = summarise(source).scaling  # a warning of wild inputs would be an error
    spread = scaling.input_spread
    assert spread[0] == spread[1] == spread[2]
    assert np.allclose(spread[0], np.sqrt(x.var(0).mean()), rtol=1e-9)
    assert spread[3] == pytest.approx(x[:, 0].std())
    assert scaling.input_low.isinf().all()


def target_rows(targets: Tensor, weight: Tensor | None = None) -> Rows:
    return as_rows(torch.zeros(len(targets), 1), targets, weight)


def test_usual_targets_are_silent(generator: torch.Generator) -> None:
    targets = normal(generator, 500, 2)
    heavy = torch.stack((targets[:, 0], (3 * targets[:, 1]).exp()), dim=-1)
    counted = (3 * targets).round()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for each in (targets, heavy, counted, targets * 1e30, torch.zeros_like(targets)):
            warn_about_targets(target_rows(each), output_warp=False)
        for each in (targets, heavy, counted):
            warn_about_targets(target_rows(each), output_warp=True)
        targets[7], weight = 1e6, torch.ones(500)
        weight[7] = 0  # a row that does not count
        warn_about_targets(target_rows(targets, weight), output_warp=True)
    assert not caught


@pytest.mark.parametrize(("tied", "share"), [(50, "25%"), (200, "100%")])
def test_ties_and_a_value_far_from_all_others_are_told(
    generator: torch.Generator, tied: int, share: str
) -> None:
    targets = normal(generator, 200, 1)
    targets[:tied] = 0.5
    with pytest.warns(UserWarning, match=f"{share} of y is one and the same value"):
        warn_about_targets(target_rows(targets), output_warp=True)
    targets = normal(generator, 200, 2)
    targets[7, 1] = 1e6
    with pytest.warns(UserWarning, match=r"Column 1 of y has a value .* times as far"):
        warn_about_targets(target_rows(targets), output_warp=False)


def test_ties_are_equal_values_of_rows_that_count(generator: torch.Generator) -> None:
    targets, weight = normal(generator, 200, 2), torch.ones(200)
    assert not has_ties(target_rows(targets))
    targets[:50, 1] = 0.5
    assert has_ties(target_rows(targets))
    weight[:20] = 0
    assert not has_ties(target_rows(targets, weight))


@pytest.mark.parametrize("step", [1.0, 0.1, 1e-3, 12.5, 1e20])
def test_the_step_of_rounded_targets_is_found(step: float, generator: torch.Generator) -> None:
    values = 20 * normal(generator, 400, 1)
    found = target_resolution(target_rows(step * values.round()))
    assert found.item() == pytest.approx(step, rel=1e-6)
    # Standardised targets are rounded once more.
    shifted = (step * values.round() - 3.3 * step) / (0.7 * step)
    assert target_resolution(target_rows(shifted)).item() == pytest.approx(1 / 0.7, rel=1e-6)


def test_targets_that_are_not_rounded_have_no_step(generator: torch.Generator) -> None:
    smooth, rounded = normal(generator, 300, 1), normal(generator, 300, 1).round()
    both = target_resolution(target_rows(torch.cat((smooth, rounded), dim=1)))
    assert both.tolist() == [0.0, 1.0]
    assert target_resolution(target_rows(torch.full((30, 1), 3.0))).item() == 0
    assert target_resolution(target_rows(smooth[:1])).item() == 0
    # One value that occurs often, as zero does in rain, is no step.
    rain = torch.where(smooth > 0, smooth, 0.0)
    assert target_resolution(target_rows(rain)).item() == 0
    # Values that differ by rounding errors are equal.
    blurred = torch.cat((rounded, rounded + 1e-13))
    assert target_resolution(target_rows(blurred)).item() == pytest.approx(1.0)


N_SAMPLED, MOST = 5000, 300


def rows_of(numbers: np.ndarray) -> Chunk:
    column = numbers[:, None].astype(float)
    return as_chunk(numbers, np.hstack((column, -column)), 2 * column)


def expected() -> Chunk:
    return rows_of(smallest_keys(np.arange(N_SAMPLED), MOST))


def assert_equal(ours: Chunk, theirs: Chunk) -> None:
    assert np.array_equal(ours.numbers, theirs.numbers)
    assert all(map(torch.equal, ours.rows.tensors(), theirs.rows.tensors()))


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("size", [7, 299, 301, N_SAMPLED])
def test_a_sample_depends_neither_on_chunks_nor_on_their_order(size: int, shuffled: bool) -> None:
    numbers = np.arange(N_SAMPLED)
    if shuffled:
        numbers = np.random.default_rng(0).permutation(N_SAMPLED)
    sampler = RowSampler(MOST)
    for first in range(0, N_SAMPLED, size):
        sampler.add(rows_of(numbers[first : first + size]))
    assert_equal(sampler.sample(), expected())
    few = RowSampler(N_SAMPLED)
    few.add(rows_of(np.arange(20)))
    assert_equal(few.sample(), rows_of(np.arange(20)))


def sample_of_share(processes: Processes) -> Chunk:
    """Return the sample of all processes, as one of them finds it."""
    sampler = RowSampler(MOST)
    begin, end = processes.share.span(N_SAMPLED)
    for first in range(begin, end, 100):
        sampler.add(rows_of(np.arange(first, min(first + 100, end))))
    return sampler.sample(processes)


def test_a_sample_does_not_depend_on_the_processes_that_read_it() -> None:
    gathered, barrier = [None] * 3, Barrier(3)

    class Threads(Processes):
        def all_gather(self, value: Any) -> Any:
            gathered[self.rank] = value
            barrier.wait(60)
            values = [*gathered]
            barrier.wait(60)
            return values

    with ThreadPoolExecutor(3) as pool:
        for ours in pool.map(sample_of_share, [Threads(rank, 3) for rank in range(3)]):
            assert_equal(ours, expected())


def test_every_row_is_as_likely_as_any_other() -> None:
    chosen = smallest_keys(np.arange(100_000), 10_000)
    counts = np.histogram(chosen, bins=50, range=(0, 100_000))[0]
    assert abs(counts - 200).max() < 5 * np.sqrt(200)
    assert len(np.unique(sample_keys(np.arange(100_000)))) == 100_000


def test_seeds_choose_different_samples_of_all_rows_alike() -> None:
    numbers = np.arange(N_SAMPLED)
    samples = [smallest_keys(numbers, MOST, seed) for seed in range(40)]
    assert np.array_equal(samples[0], smallest_keys(numbers, MOST))
    assert len({tuple(sample.tolist()) for sample in samples}) == 40
    counts = np.bincount(np.concatenate(samples), minlength=N_SAMPLED)
    assert counts.max() <= 12  # 2.4 on average
    assert abs(np.concatenate(samples).mean() - N_SAMPLED / 2) < 50


X, Y, _ = arrays(weighted=False)


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([(X, Y), (X[:, :3], Y)], r"same number of inputs and targets.*\(4, 2\).*\(3, 2\)"),
        ([(X[:3], Y[:3], np.array([0.0, -1.0, 0.0]))], "non-negative"),
        ([(np.where(X[600, 2] == X, np.nan, X), Y)], "1 NaN"),
        ([(X, Y), (X, Y, np.ones(N_ROWS))], "Either all chunks or none must have weights"),
        ([(X, Y, np.full(N_ROWS, 10.0**n)) for n in (-60, 60)], "1e\\+100 times the smallest"),
    ],
)
def test_chunks_that_make_no_table_are_refused(chunks: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        summarise(IterableSource(chunks))
    with pytest.raises(ValueError, match="at least one row that counts"):
        RowSampler(MOST).sample()
    for n in (0, 1):
        with pytest.raises(ValueError, match=f"at least 2 rows that count. Got {n}"):
            summarise(ArraySource(X[:n], Y[:n]))
