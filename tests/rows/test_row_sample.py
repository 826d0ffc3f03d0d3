from __future__ import annotations

import numpy as np
import pytest
from builders.processes import run_processes

from sswim.distributed.processes import Processes
from sswim.rows.source import Chunk
from sswim.rows.summary import RowSampler, sample_keys, smallest_keys

N_ROWS, MOST = 5000, 300


def rows_of(numbers: np.ndarray) -> Chunk:
    column = numbers[:, None].astype(float)
    return Chunk(numbers, np.hstack((column, -column)), 2 * column)


def expected() -> Chunk:
    return rows_of(smallest_keys(np.arange(N_ROWS), MOST))


def assert_equal(ours: Chunk, theirs: Chunk) -> None:
    assert np.array_equal(ours.numbers, theirs.numbers)
    assert np.array_equal(ours.inputs, theirs.inputs)
    assert np.array_equal(ours.targets, theirs.targets)


@pytest.mark.parametrize("size", [1, 7, 299, 301, 1000, N_ROWS])
def test_a_sample_does_not_depend_on_how_rows_are_cut(size: int) -> None:
    reservoir = RowSampler(MOST)
    for first in range(0, N_ROWS, size):
        reservoir.add(rows_of(np.arange(first, min(first + size, N_ROWS))))
    assert_equal(reservoir.sample(), expected())


def test_nor_on_their_order() -> None:
    order = np.random.default_rng(0).permutation(N_ROWS)
    reservoir = RowSampler(MOST)
    for part in np.array_split(order, 11):
        reservoir.add(rows_of(part))
    assert_equal(reservoir.sample(), expected())


def sample_of_share(processes: Processes) -> Chunk:
    reservoir = RowSampler(MOST)
    begin, end = processes.share.span(N_ROWS)
    for first in range(begin, end, 100):
        reservoir.add(rows_of(np.arange(first, min(first + 100, end))))
    return reservoir.sample(processes)


def test_nor_on_who_reads_them() -> None:
    for ours in run_processes(3, sample_of_share):
        assert_equal(ours, expected())


def test_every_row_is_as_likely_as_any_other() -> None:
    chosen = smallest_keys(np.arange(100_000), 10_000)
    counts = np.histogram(chosen, bins=50, range=(0, 100_000))[0]
    assert abs(counts - 200).max() < 5 * np.sqrt(200)
    assert len(np.unique(sample_keys(np.arange(100_000)))) == 100_000


def test_few_rows_are_all_taken() -> None:
    reservoir = RowSampler(MOST)
    reservoir.add(rows_of(np.arange(20)))
    assert_equal(reservoir.sample(), rows_of(np.arange(20)))


def test_rows_that_do_not_count_are_not_taken() -> None:
    chunk = rows_of(np.arange(20))
    weight = np.arange(20) % 2.0
    reservoir = RowSampler(MOST)
    reservoir.add(Chunk(chunk.numbers, chunk.inputs, chunk.targets, weight))
    sample = reservoir.sample()
    assert np.array_equal(sample.numbers, np.arange(1, 20, 2))
    assert sample.weight is not None
    assert (sample.weight == 1).all()


def test_no_rows_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one row that counts"):
        RowSampler(MOST).sample()


def test_seeds_choose_different_samples_of_all_rows_alike() -> None:
    numbers = np.arange(N_ROWS)
    samples = [smallest_keys(numbers, MOST, seed) for seed in range(40)]
    assert np.array_equal(samples[0], smallest_keys(numbers, MOST))
    assert len({tuple(sample.tolist()) for sample in samples}) == 40
    counts = np.bincount(np.concatenate(samples), minlength=N_ROWS)
    assert counts.max() <= 12  # 2.4 on average
    assert abs(np.concatenate(samples).mean() - N_ROWS / 2) < 50
