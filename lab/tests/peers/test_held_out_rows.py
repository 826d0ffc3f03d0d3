"""Held-out rows, and the densities that they give."""

from __future__ import annotations

import numpy as np
import pytest
from builders.crps import Array
from lab_builders.peers import rows
from sswim_lab.peers.trees import ConstantVariance, LearntVariance, hold_out_tenth


def test_a_tenth_is_held_out_and_the_target_standardised() -> None:
    x, y = rows(100)
    split = hold_out_tenth(x, y, 3)
    assert len(split.held_out_y) == 10
    together = np.concatenate([split.y, split.held_out_y])
    assert np.allclose(np.sort(split.target_mean + split.target_spread * together), np.sort(y))
    assert np.allclose([together.mean(), together.std()], [0, 1])
    assert np.array_equal(hold_out_tenth(x, y, 3).held_out_y, split.held_out_y)
    assert not np.array_equal(hold_out_tenth(x, y, 4).held_out_y, split.held_out_y)


class Zero:
    """A model that predicts zero."""

    def predict(self, x: Array) -> Array:
        return np.zeros(len(x))


def test_the_error_on_held_out_rows_is_the_variance_of_all() -> None:
    x, y = rows(100)
    split = hold_out_tenth(x, y, 0)
    predictive = ConstantVariance.from_held_out(Zero(), split).predict(x)
    assert np.allclose(predictive.mean, y.mean())
    held_out = y.std() * split.held_out_y
    assert np.allclose(predictive.variance, np.mean(held_out**2), rtol=1e-12, atol=0)


def test_learnt_moments_are_returned_in_the_units_of_the_target() -> None:
    fitted = LearntVariance(
        lambda x: (x[:, 0], np.abs(x[:, 1])), target_mean=3.0, target_spread=2.0
    )
    predictive = fitted.predict(np.array([[1.0, 0.25], [-2.0, 1.0]]))
    assert predictive.mean == pytest.approx([5, -1])
    assert predictive.variance == pytest.approx([1, 4])
