from __future__ import annotations

import numpy as np
import pytest

from sswim.rows.source import Chunk


@pytest.fixture
def chunk() -> Chunk:
    numbers = np.arange(5)
    column = numbers[:, None].astype(float)
    return Chunk(numbers, column, 2 * column, 3.0 * numbers, 4 * column)


@pytest.mark.parametrize(
    "which", [np.array([3, 1]), np.arange(5) % 2 == 1], ids=["numbers", "mask"]
)
def test_some_rows_of_a_chunk_are_copies(which: np.ndarray, chunk: Chunk) -> None:
    part = chunk.take(which)
    numbers = np.arange(5)[which]
    assert len(part) == 2
    assert np.array_equal(part.numbers, numbers)
    assert np.array_equal(part.inputs[:, 0], numbers)
    assert np.array_equal(part.targets[:, 0], 2 * numbers)
    assert part.weight is not None
    assert np.array_equal(part.weight, 3 * numbers)
    assert part.input_variance is not None
    assert np.array_equal(part.input_variance[:, 0], 4 * numbers)
    assert not np.shares_memory(part.inputs, chunk.inputs)


def test_what_a_chunk_lacks_its_parts_lack_too(chunk: Chunk) -> None:
    part = Chunk(chunk.numbers, chunk.inputs, chunk.targets).take(np.array([0]))
    assert part.weight is None
    assert part.input_variance is None
