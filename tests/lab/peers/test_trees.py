"""Boosted trees: the rows that they hold out."""

from __future__ import annotations

import numpy as np
from builders.peers import rows

from sswim.lab.peers.trees import hold_out_tenth


def test_a_tenth_is_held_out_and_the_target_standardised() -> None:
    x, y = rows(100)
    split = hold_out_tenth(x, y, 3)
    assert len(split.held_out_y) == 10
    together = np.concatenate([split.y, split.held_out_y])
    assert np.allclose(np.sort(split.target_mean + split.target_spread * together), np.sort(y))
    assert np.allclose([together.mean(), together.std()], [0, 1])
    assert np.array_equal(hold_out_tenth(x, y, 3).held_out_y, split.held_out_y)
    assert not np.array_equal(hold_out_tenth(x, y, 4).held_out_y, split.held_out_y)
