"""Arrays for tests of sources, and reading all shares of a source."""

from __future__ import annotations

import numpy as np

from sswim.distributed.processes import Share
from sswim.rows import Source


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (10, 3) and targets (10,) that are all different."""
    x = np.arange(30, dtype=float).reshape(10, 3)
    return x, np.arange(10, dtype=float)


def read_shares(source: Source, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the numbers, inputs and targets of all shares together, sorted by number."""
    chunks = [chunk for rank in range(size) for chunk in source.chunks(Share(rank, size))]
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    inputs = np.concatenate([chunk.rows.inputs.mean for chunk in chunks])
    targets = np.concatenate([chunk.rows.targets for chunk in chunks])
    order = np.argsort(numbers)
    return numbers[order], inputs[order], targets[order]


def assert_all_rows_once(source: Source, size: int) -> None:
    """Check that the shares of a source hold each row of the arrays once, in every pass."""
    x, y = arrays()
    for _ in range(2):
        numbers, inputs, targets = read_shares(source, size)
        assert np.array_equal(numbers, np.arange(len(x)))
        assert np.array_equal(inputs, x)
        assert np.array_equal(targets[:, 0], y)
