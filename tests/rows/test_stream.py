from __future__ import annotations

import numpy as np
import pytest
import torch
from builders.models import small_rows

from sswim.distributed.processes import ALL_ROWS, Share
from sswim.rows import IterableSource
from sswim.rows.rows import Rows
from sswim.rows.scaling import learn_scaling
from sswim.rows.training_rows import Stream

CPU = torch.device("cpu")


@pytest.fixture
def rows(generator: torch.Generator) -> Rows:
    return small_rows(generator, n=20, n_targets=2)


def streamed(
    rows: Rows, weight: np.ndarray | None = None, share: Share = ALL_ROWS, dtype: str = "float64"
) -> Stream:
    """Return a stream of a source with chunks of seven rows."""
    arrays = [rows.inputs.mean.numpy(), rows.targets.numpy()]
    arrays += [] if weight is None else [weight]
    cuts = [slice(first, first + 7) for first in range(0, len(rows), 7)]
    source = IterableSource([tuple(array[cut] for array in arrays) for cut in cuts])
    return Stream(source, share, learn_scaling(rows), getattr(torch, dtype), CPU)


def test_rows_are_standardised_in_every_pass(rows: Rows) -> None:
    expected = learn_scaling(rows).rows(rows)
    stream = streamed(rows)
    for _ in range(2):
        assert [len(chunk) for chunk in stream] == [7, 7, 6]
        found = stream.in_memory()
        assert torch.equal(found.inputs.mean, expected.inputs.mean)
        assert torch.equal(found.targets, expected.targets)


def test_single_precision_is_for_streamed_inputs_alone(rows: Rows) -> None:
    found = streamed(rows, dtype="float32").in_memory()
    assert found.inputs.mean.dtype == torch.float32
    assert found.targets.dtype == torch.float64
    assert torch.equal(found.inputs.mean, streamed(rows).in_memory().inputs.mean.float())


def test_rows_of_weight_zero_are_left_out(rows: Rows) -> None:
    weight = np.arange(20) % 3.0
    found = streamed(rows, weight).in_memory()
    kept = torch.from_numpy(np.flatnonzero(weight))
    assert torch.equal(found.targets, learn_scaling(rows).targets(rows.targets[kept]))
    assert found.weight is not None
    assert torch.equal(found.weight, torch.from_numpy(weight)[kept])


def test_a_share_without_rows_is_one_empty_chunk(rows: Rows) -> None:
    [chunk] = streamed(rows, share=Share(4, 5), dtype="float32")  # there are only three chunks
    assert chunk.inputs.mean.shape == (0, 3)
    assert chunk.inputs.mean.dtype == torch.float32
    assert chunk.targets.shape == (0, 2)
