from __future__ import annotations

import numpy as np
import pytest

from sswim.rows.imputer import Encoded, impute, learn_imputer

RANDOM = np.random.default_rng(0)
SAMPLE = RANDOM.normal(size=(200, 3)) @ RANDOM.normal(size=(3, 3))
IMPUTER = learn_imputer(SAMPLE)
HOLES = np.array([[1.0, np.nan, 2.0], [0.5, 0.5, 0.5], [np.nan, np.nan, np.nan]])


def test_encoded_rows_have_a_length() -> None:
    assert len(Encoded(HOLES)) == 3


def test_complete_rows_stay_as_they_are() -> None:
    complete = Encoded(np.ones((2, 3)), np.full((2, 3), 0.5))
    assert impute(complete, IMPUTER) is complete
    assert impute(Encoded(np.ones((2, 3))), IMPUTER).variance is None


def test_missing_inputs_are_filled_with_their_variance() -> None:
    filled, variance = IMPUTER.fill(HOLES)
    found = impute(Encoded(HOLES), IMPUTER)
    assert np.array_equal(found.inputs, filled)
    assert found.variance is not None
    assert np.array_equal(found.variance, variance)
    assert np.array_equal(found.variance > 0, np.isnan(HOLES))


def test_variances_add_up() -> None:
    known = np.full(HOLES.shape, 0.25)
    found, alone = (impute(Encoded(HOLES, each), IMPUTER) for each in (known, None))
    assert found.variance is not None
    assert alone.variance is not None
    assert np.array_equal(found.variance, alone.variance + 0.25)
    assert (known == 0.25).all()  # the given ones are not changed


@pytest.mark.parametrize("place", range(4))
def test_indicators_are_neither_filled_nor_used(place: int) -> None:
    indicators = np.arange(4) == place
    wide = np.insert(HOLES, place, [7.0, 8.0, 9.0], axis=1)
    found, narrow = impute(Encoded(wide), IMPUTER, indicators), impute(Encoded(HOLES), IMPUTER)
    assert found.inputs[:, place].tolist() == [7.0, 8.0, 9.0]
    assert np.array_equal(found.inputs[:, ~indicators], narrow.inputs)
    assert found.variance is not None
    assert narrow.variance is not None
    assert np.array_equal(found.variance[:, ~indicators], narrow.variance)
    assert not found.variance[:, place].any()
    assert np.isnan(wide).sum() == 4  # the given inputs are not changed


def test_inputs_that_count_as_known_have_no_variance_of_their_own() -> None:
    certain = np.array([True, False, False])
    found, uncertain = (impute(Encoded(HOLES), IMPUTER, None, each) for each in (certain, None))
    assert np.array_equal(found.inputs, uncertain.inputs)
    assert found.variance is not None
    assert uncertain.variance is not None
    assert not found.variance[:, 0].any()
    assert np.array_equal(found.variance[:, 1:], uncertain.variance[:, 1:])
    everything = impute(Encoded(HOLES), IMPUTER, None, np.full(3, True))
    assert everything.variance is None
    known = impute(Encoded(HOLES, np.full(HOLES.shape, 0.25)), IMPUTER, None, np.full(3, True))
    assert known.variance is not None
    assert (known.variance == 0.25).all()  # what the user has said stays


def test_the_variance_of_a_gap_and_that_of_the_user_do_not_overflow() -> None:
    wide = learn_imputer(1e200 * SAMPLE)
    given = np.full(HOLES.shape, 1e300)
    found = impute(Encoded(1e200 * HOLES, given), wide)
    assert found.variance is not None
    assert np.isfinite(found.variance).all()
