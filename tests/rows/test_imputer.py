from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from sswim.base.validation import UserError
from sswim.rows import GaussianImputer, impute, learn_imputer
from sswim.rows import imputer as gaussian_imputer

Array = NDArray[np.float64]


def random_covariance(n_inputs: int, seed: int = 0) -> Array:
    """Return a covariance of correlated columns with different spreads."""
    random = np.random.default_rng(seed)
    loadings = random.normal(size=(n_inputs, 2))
    correlated = loadings @ loadings.T + 0.3 * np.eye(n_inputs)
    spread = 10.0 ** random.uniform(-3, 3, n_inputs)
    covariance = correlated * np.outer(spread, spread)
    return 0.5 * (covariance + covariance.T)


def make_imputer(n_inputs: int, reach: float = 1e9) -> GaussianImputer:
    covariance = random_covariance(n_inputs)
    mean = np.random.default_rng(1).normal(size=n_inputs)
    spread = np.sqrt(covariance.diagonal())
    correlation = covariance / np.outer(spread, spread)
    np.fill_diagonal(correlation, 1.0)
    return GaussianImputer(mean, spread, correlation, mean - reach * spread, mean + reach * spread)


def covariance_of(imputer: GaussianImputer) -> Array:
    return imputer.correlation * np.outer(imputer.spread, imputer.spread)


def remove(values: Array, rate: float, seed: int = 0) -> Array:
    """Return values of which a share is missing at random."""
    gone = np.random.default_rng(seed).random(values.shape) < rate
    return np.where(gone, np.nan, values)


def draw(mean: Array, covariance: Array, n_rows: int, seed: int = 2) -> Array:
    return np.random.default_rng(seed).multivariate_normal(mean, covariance, n_rows)


def fill_one_row(imputer: GaussianImputer, row: Array) -> tuple[Array, Array]:
    """Condition a Gaussian on the observed cells of one row by its definition."""
    m, o = np.flatnonzero(np.isnan(row)), np.flatnonzero(~np.isnan(row))
    covariance, mean = covariance_of(imputer), imputer.mean
    gain = covariance[np.ix_(m, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
    filled, variance = row.copy(), np.zeros_like(row)
    filled[m] = mean[m] + gain @ (row[o] - mean[o])
    variance[m] = np.diag(covariance[np.ix_(m, m)] - gain @ covariance[np.ix_(o, m)])
    return filled, variance


@pytest.mark.parametrize("entries", [20, gaussian_imputer._ENTRIES])
@pytest.mark.parametrize("n_inputs", [1, 2, 5])
def test_missing_cells_are_conditional_gaussians(
    n_inputs: int, entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks and at once. Observed cells stay as they are."""
    monkeypatch.setattr(gaussian_imputer, "_ENTRIES", entries)
    imputer = make_imputer(n_inputs)
    rows = remove(draw(imputer.mean, covariance_of(imputer), 50), 0.5)
    rows[0] = np.nan
    filled, variance = imputer.fill(rows)
    expected = [fill_one_row(imputer, row) for row in rows]
    spread = imputer.spread
    means, variances = (np.array(parts) for parts in zip(*expected, strict=True))
    np.testing.assert_allclose(filled / spread, means / spread, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(variance / spread**2, variances / spread**2, atol=1e-8)
    observed = ~np.isnan(rows)
    np.testing.assert_array_equal(filled[observed], rows[observed])
    np.testing.assert_array_equal(variance > 0, ~observed)
    again, nothing = imputer.fill(filled)  # far from the mean or not
    np.testing.assert_array_equal(again, filled)
    assert again is not filled
    assert not nothing.any()


def test_filled_cells_stay_within_the_range_whatever_the_others_are() -> None:
    imputer = make_imputer(3, reach=2.0)
    rows = np.array([[1e300, np.nan, np.nan], [-1e300, 1e300, np.nan], [np.nan] * 3])
    filled, variance = imputer.fill(rows)
    gone = np.isnan(rows)
    within = (filled >= imputer.low) & (filled <= imputer.high)
    assert within[gone].all()
    assert np.isfinite(variance).all()


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_em_recovers_the_gaussian_of_the_rows(rate: float) -> None:
    truth = make_imputer(5)
    rows = draw(truth.mean, covariance_of(truth), 1900)
    spread = truth.spread
    learnt = learn_imputer(remove(rows, rate))
    np.testing.assert_allclose((learnt.mean - truth.mean) / spread, 0, atol=0.1)
    correlations = (covariance_of(learnt) - covariance_of(truth)) / np.outer(spread, spread)
    np.testing.assert_allclose(correlations, 0, atol=0.1)
    if not rate:
        weight = len(rows) / (len(rows) + gaussian_imputer.PRIOR_ROWS)
        sample = np.cov(rows.T, bias=True) * weight
        shrunk = sample + np.diag(sample.diagonal() * (1 - weight) / weight)
        np.testing.assert_allclose(covariance_of(learnt), shrunk, rtol=1e-6)


def test_em_corrects_for_cells_missing_by_an_observed_column() -> None:
    random = np.random.default_rng(3)
    first = random.normal(size=2500)  # more than are needed
    second = 0.9 * first + 0.3 * random.normal(size=2500)
    rows = np.column_stack((first, np.where(first > 0, np.nan, second)))
    assert np.nanmean(rows[:, 1]) < -0.6
    assert abs(learn_imputer(rows).mean[1]) < 0.1


def test_odd_columns_are_filled() -> None:
    random = np.random.default_rng(4)
    rows = random.normal(size=(200, 6))
    rows[:, 1] = 3.7  # constant
    rows[:, 2] = np.nan  # without any value
    rows[:, 3] = np.nan  # one value
    rows[5, 3] = 8.0
    rows[:, 4] = (random.random(200) < 0.02).astype(float)  # rare ones
    rows[:, 5] = rows[:, 0]  # a copy
    holes = remove(rows, 0.3)
    holes[5, 3] = 8.0
    imputer = learn_imputer(holes)
    filled, variance = imputer.fill(holes)
    assert np.isfinite(filled).all()
    assert np.isfinite(variance).all()
    np.testing.assert_array_equal(filled[:, 1], 3.7)
    np.testing.assert_array_equal(filled[:, 2], 0.0)
    np.testing.assert_array_equal(filled[:, 3], 8.0)
    assert not variance[:, 1:4].any()
    copied = np.isnan(holes[:, 5]) & ~np.isnan(holes[:, 0])
    np.testing.assert_allclose(filled[copied, 5], rows[copied, 0], atol=0.2)


@pytest.mark.parametrize(("n_rows", "n_inputs"), [(1, 1), (1, 4), (2, 3), (10, 30), (30, 50)])
def test_few_rows_and_many_columns_are_enough(n_rows: int, n_inputs: int) -> None:
    random = np.random.default_rng(5)
    largest = np.finfo(np.float64).max
    for rows in (
        random.normal(size=(n_rows, n_inputs)),
        random.choice([-largest, largest], size=(n_rows, n_inputs)),
        np.full((n_rows, n_inputs), np.nan),
    ):
        holes = remove(rows, 0.3)
        holes[0, -1] = np.nan
        imputer = learn_imputer(holes)
        filled, variance = imputer.fill(holes)
        assert np.isfinite(filled).all()
        assert (variance >= 0).all()
        assert np.isfinite(variance).all()
        assert GaussianImputer.checked(*astuple(imputer)).mean.shape == (n_inputs,)
    assert not filled.any()
    assert not variance.any()


@pytest.mark.parametrize("unit", [1e-300, 1e-200, 1e200, 1e300])
def test_columns_of_any_unit_are_filled_alike_and_by_the_stored_arrays(unit: float) -> None:
    rows = np.random.default_rng(6).normal(size=(50, 3))
    rows[:, 2] += 3 * rows[:, 1]
    rows, units = remove(rows, 0.2), np.array([1.0, unit, unit])
    imputer = learn_imputer(units * rows)
    filled, variance = imputer.fill(units * rows)
    np.testing.assert_allclose(filled / units, learn_imputer(rows).fill(rows)[0], rtol=1e-8)
    assert np.isfinite(variance).all()
    again = learn_imputer(units * rows)  # the same rows give the same imputer
    read = GaussianImputer.checked(*astuple(again)).fill(units * rows)
    for ours, theirs in zip(read, (filled, variance), strict=True):
        np.testing.assert_array_equal(ours, theirs)


VALID = {
    "mean": [0.0, 1.0],
    "spread": [1.0, 2.0],
    "correlation": [[1.0, 0.5], [0.5, 1.0]],
    "low": [-1.0, -1.0],
    "high": [1.0, 1.0],
}


@pytest.mark.parametrize(
    "changes",
    [
        {"mean": [0.0]},
        {"mean": 0.0},
        {"high": [float("nan"), 1.0]},
        {"high": [-2.0, 1.0]},
        {"spread": [-1.0, 1.0]},
        {"spread": [0.0, 1.0]},
        {"correlation": [[1.0, 0.5]]},
        {"correlation": [[1.0, 0.5], [0.4, 1.0]]},
        {"correlation": [[1.0, 2.0], [2.0, 1.0]]},
        {"correlation": [[0.9, 0.5], [0.5, 1.0]]},
    ],
)
def test_arrays_that_are_no_imputer_are_refused(changes: dict[str, object]) -> None:
    arrays = {name: np.array(value) for name, value in (VALID | changes).items()}
    with pytest.raises(UserError, match="An imputer must have a mean"):
        GaussianImputer.checked(**arrays)


RANDOM = np.random.default_rng(0)
SAMPLE = RANDOM.normal(size=(200, 3)) @ RANDOM.normal(size=(3, 3))
IMPUTER = learn_imputer(SAMPLE)
HOLES = np.array([[1.0, np.nan, 2.0], [0.5, 0.5, 0.5], [np.nan, np.nan, np.nan]])
KNOWN = np.full(HOLES.shape, 0.25)


imputed: Callable[..., Any] = impute


def test_missing_inputs_are_filled_with_their_variance_and_the_one_that_they_have() -> None:
    complete = np.ones((2, 3))
    assert impute(complete, IMPUTER, KNOWN[:2])[0] is complete
    assert impute(complete, IMPUTER)[1] is None
    filled, variance = IMPUTER.fill(HOLES)
    inputs, alone = imputed(HOLES, IMPUTER)
    np.testing.assert_array_equal(inputs, filled)
    np.testing.assert_array_equal(alone, variance)
    np.testing.assert_array_equal(alone > 0, np.isnan(HOLES))
    np.testing.assert_array_equal(imputed(HOLES, IMPUTER, KNOWN)[1], alone + 0.25)
    assert (KNOWN == 0.25).all()  # the given ones are not changed
    wide = imputed(1e200 * HOLES, learn_imputer(1e200 * SAMPLE), np.full(HOLES.shape, 1e300))
    assert np.isfinite(wide[1]).all()


@pytest.mark.parametrize("place", range(4))
def test_indicators_are_neither_filled_nor_used(place: int) -> None:
    indicators = np.arange(4) == place
    wide = np.insert(HOLES, place, [7.0, 8.0, 9.0], axis=1)
    inputs, variance = imputed(wide, IMPUTER, None, indicators)
    narrow = imputed(HOLES, IMPUTER)
    assert inputs[:, place].tolist() == [7.0, 8.0, 9.0]
    assert not variance[:, place].any()
    np.testing.assert_array_equal(inputs[:, ~indicators], narrow[0])
    np.testing.assert_array_equal(variance[:, ~indicators], narrow[1])
    assert np.isnan(wide).sum() == 4  # the given inputs are not changed


def test_inputs_that_count_as_known_have_no_variance_of_their_own() -> None:
    certain, every = np.array([True, False, False]), np.full(3, True)
    (inputs, variance), uncertain = (
        imputed(HOLES, IMPUTER, None, None, known) for known in (certain, None)
    )
    np.testing.assert_array_equal(inputs, uncertain[0])
    np.testing.assert_array_equal(variance, np.where(certain, 0.0, uncertain[1]))
    assert impute(HOLES, IMPUTER, None, None, every)[1] is None
    assert (imputed(HOLES, IMPUTER, KNOWN, None, every)[1] == 0.25).all()  # what the user said
