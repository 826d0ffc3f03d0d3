from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import small_rows
from builders.sources import read_shares

from sswim.rows.rows import Rows, as_rows, merge_copies
from sswim.rows.source import MemorySource
from sswim.rows.summary import SAMPLE_ROWS


def by_first_input(*columns: np.ndarray) -> np.ndarray:
    """Put arrays side by side and sort the rows, so that their order is irrelevant."""
    table = np.hstack(columns)
    return table[np.argsort(table[:, 0])]


def expected(rows: Rows) -> np.ndarray:
    return by_first_input(rows.inputs.mean.numpy(), rows.targets.numpy())


def test_all_rows_are_one_chunk(generator: torch.Generator) -> None:
    rows = small_rows(generator, n_targets=2, uncertain=True)
    source = MemorySource(rows, ["a", "b", "c"], flat_targets=False)
    [chunk] = source.chunks()
    assert np.array_equal(by_first_input(chunk.inputs, chunk.targets), expected(rows))
    assert np.array_equal(np.sort(chunk.numbers), np.arange(len(rows)))
    assert chunk.input_variance is not None
    assert rows.inputs.input_variance is not None
    variances = by_first_input(chunk.inputs, chunk.input_variance)
    given = by_first_input(rows.inputs.mean.numpy(), rows.inputs.input_variance.numpy())
    assert np.array_equal(variances, given)
    assert source.names == ("a", "b", "c")
    assert source.in_memory
    assert not source.flat_targets


@pytest.mark.parametrize("size", [1, 2, 5, 30])
def test_shares_are_all_rows_once(size: int, generator: torch.Generator) -> None:
    rows = small_rows(generator)
    numbers, inputs, targets = read_shares(MemorySource(rows), size)
    assert np.array_equal(numbers, np.arange(len(rows)))
    assert np.array_equal(by_first_input(inputs, targets), expected(rows))


def test_inputs_in_single_precision_are_read_in_double(generator: torch.Generator) -> None:
    rows = small_rows(generator, dtype=torch.float32)
    [chunk] = MemorySource(rows).chunks()
    assert chunk.inputs.dtype == np.float64
    assert np.array_equal(np.sort(chunk.inputs, axis=0), rows.inputs.mean.double().sort(0).values)


@pytest.mark.parametrize("uncertain", [False, True])
def test_copies_and_weights_become_the_same_distinct_rows(
    uncertain: bool, generator: torch.Generator
) -> None:
    rows = small_rows(generator, n=12, n_targets=2, uncertain=uncertain)
    times = torch.randint(0, 4, (12,), generator=generator)
    repeated = rows.map(lambda tensor: tensor.repeat_interleave(times, dim=0))
    shuffled = repeated.take(torch.randperm(len(repeated), generator=generator))
    weighted = replace(rows, weight=times.double())
    [counted] = MemorySource(weighted.take(times.nonzero()[:, 0])).chunks()
    [copies] = MemorySource(shuffled).chunks()
    for name in ("inputs", "targets", "weight", "input_variance"):
        assert np.array_equal(getattr(copies, name), getattr(counted, name)), name
    assert copies.weight is not None
    assert copies.weight.sum() == times.sum()


def test_rows_that_differ_in_their_target_alone_are_no_copies() -> None:
    rows = as_rows(np.ones((2, 1)), np.array([0.0, 1.0]))
    assert merge_copies(rows) is rows


def test_copies_are_merged_however_many_rows_there_are() -> None:
    n = SAMPLE_ROWS + 10
    x = np.arange(2 * n, dtype=float) // 2  # every row twice
    [chunk] = MemorySource(as_rows(x[:, None], -x)).chunks()
    assert np.array_equal(np.sort(chunk.inputs[:, 0]), np.arange(n))
    assert np.array_equal(chunk.targets, -chunk.inputs)
    assert chunk.weight is not None
    assert (chunk.weight == 2).all()


def test_zeros_of_both_signs_are_the_same_value() -> None:
    merged = merge_copies(as_rows(np.array([[0.0], [-0.0]]), np.array([-0.0, 0.0])))
    assert len(merged) == 1


def test_the_order_of_merged_rows_does_not_depend_on_the_given_order(
    generator: torch.Generator,
) -> None:
    rows = small_rows(generator, weighted=True)
    shuffled = rows.take(torch.randperm(len(rows), generator=generator))
    for ours, theirs in zip(
        merge_copies(rows).tensors(), merge_copies(shuffled).tensors(), strict=True
    ):
        assert torch.equal(ours, theirs)
