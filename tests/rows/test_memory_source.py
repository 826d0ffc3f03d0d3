from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from builders.models import small_rows
from builders.sources import read_shares

from sswim.rows import memory_source
from sswim.rows.memory_source import MemorySource, merge_copies
from sswim.rows.rows import Rows, as_rows


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


def test_more_rows_than_a_sample_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_source, "SAMPLE_ROWS", 3)
    [chunk] = MemorySource(as_rows(np.ones((4, 1)), np.ones(4))).chunks()
    assert len(chunk) == 4
    assert chunk.weight is None
