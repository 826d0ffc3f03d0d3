from __future__ import annotations

import numpy as np
import pytest

from sswim.search.nearest import partition_order


@pytest.mark.parametrize("n", [0, 1, 8, 9, 100])
def test_every_row_comes_once(n: int) -> None:
    rows = np.random.default_rng(0).random((n, 3))
    assert sorted(partition_order(rows, 8)) == list(range(n))


def test_leaves_are_small() -> None:
    rows = np.random.default_rng(0).random((1024, 2))
    leaves = rows[partition_order(rows, 16)].reshape(64, 16, 2)
    sides = leaves.max(1) - leaves.min(1)
    assert sides.mean() < 0.2
