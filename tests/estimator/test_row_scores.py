"""Scores of single rows, against those of all rows, and their intervals."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from builders.estimators import skewed_rows, small
from scipy import integrate, stats

from sswim import evaluate
from sswim.base.validation import UserError
from sswim.estimator import BaseRegressor
from sswim.estimator import evaluation as row_scores
from sswim.estimator import evaluation as score_intervals
from sswim.estimator.evaluation import RowScores, score_rows


@functools.cache
def model() -> BaseRegressor:
    X, y = skewed_rows()
    return small(output_warp="sinh-arcsinh", noise="input-dependent", n_members=2).fit(X, y)


def test_means_over_rows_are_the_scores_of_evaluate() -> None:
    X, y = skewed_rows(seed=1)
    rows = score_rows(model(), X, y)
    found, expected = score_intervals.score_intervals(rows), evaluate(model(), X, y)
    assert found.rmse.value == pytest.approx(expected.rmse)
    assert found.mnlp.value == pytest.approx(expected.mnlp)
    assert found.r2.value == pytest.approx(expected.r2)
    assert found.coverage[0.9].value == expected.coverage
    assert found.mae.value == pytest.approx(np.abs(y - model().predict(X)).mean())
    lower, upper = model().predict_interval(X, 0.9)
    assert rows.lower == pytest.approx(lower, abs=1e-5)
    assert rows.upper == pytest.approx(upper, abs=1e-5)
    assert rows.noise == pytest.approx(model().predict_noise(X))


def test_crps_is_the_integral_of_the_squared_error_of_the_distribution() -> None:
    X, y = skewed_rows(n=3, seed=2)
    rows = score_rows(model(), X, y)
    for place in range(3):

        def squared(t: float, x: np.ndarray = X[place : place + 1], at: float = y[place]) -> float:
            return float((model().cdf(x, np.array([t]))[0] - (t >= at)) ** 2)

        ends = (
            rows.mean[place] - 12 * rows.deviation[place],
            rows.mean[place] + 12 * rows.deviation[place],
        )
        expected, _ = integrate.quad(squared, *ends, points=[y[place]], limit=200, epsabs=1e-3)
        assert rows.crps[place] == pytest.approx(expected, rel=0.02)


def test_rows_are_predicted_in_chunks_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = skewed_rows(n=40, seed=3)
    whole = score_rows(model(), X, y)
    monkeypatch.setattr(row_scores, "CHUNK_ROWS", 16)
    done: list[int] = []
    parts = score_rows(model(), X, y, done.append)
    assert done == [16, 16, 8]
    assert parts.log_density == pytest.approx(whole.log_density)
    assert parts.crps == pytest.approx(whole.crps)


def test_several_targets_are_refused() -> None:
    X, y = skewed_rows(n_targets=2)
    with pytest.raises(UserError, match="one target"):
        score_rows(small().fit(X, y), X, y)


def gaussian_scores(n: int, seed: int) -> RowScores:
    """Return the scores of a correct standard normal model."""
    y = np.random.default_rng(seed).normal(size=n)
    ones, zeros = np.ones(n), np.zeros(n)
    crps = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    return RowScores(
        y,
        zeros,
        ones,
        ones,
        -1.645 * ones,
        1.645 * ones,
        stats.norm.cdf(y),
        stats.norm.logpdf(y),
        crps,
    )


def test_intervals_hold_the_true_scores_as_often_as_they_say() -> None:
    truth = {
        "rmse": 1.0,
        "mae": np.sqrt(2 / np.pi),
        "mnlp": 0.5 * np.log(2 * np.pi) + 0.5,
        "crps": 1 / np.sqrt(np.pi),
    }
    held = dict.fromkeys([*truth, "coverage"], 0)
    for seed in range(60):
        found = score_intervals.score_intervals(gaussian_scores(300, seed), random_state=100 + seed)
        for name, value in truth.items():
            interval = getattr(found, name)
            held[name] += interval.lower <= value <= interval.upper
        held["coverage"] += found.coverage[0.8].lower <= 0.8 <= found.coverage[0.8].upper
    for name, count in held.items():  # 95 % of 60 are 57; fewer than 50 have a chance of 1e-4
        assert count >= 50, name


def test_a_single_row_and_a_constant_target_have_scores() -> None:
    rows = gaussian_scores(1, 0)
    found = score_intervals.score_intervals(rows)
    assert np.isfinite(found.rmse.value)
    assert not np.isfinite(found.r2.value)
    assert np.isnan(found.r2.lower)
