from __future__ import annotations

import functools
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.estimators import skewed_rows, small
from builders.processes import run_processes
from builders.tables import mixed, small_chunks, with_gaps
from scipy import integrate, stats
from sklearn.metrics import r2_score

from sswim.base.validation import UserError
from sswim.distributed.processes import Processes
from sswim.estimator import BaseRegressor
from sswim.estimator.evaluation import (
    RowScores,
    Scores,
    evaluate,
    evaluate_table,
    score_intervals,
    score_rows,
)
from sswim.tables import KEEP_ALL, LeftOut, Schema, TableError, complete_rows, write_table


def test_scores_against_their_formulas() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 2))
    y = x[:, 0] + 0.2 * random.normal(size=80)
    regressor = small().fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    scores = evaluate(regressor, x, y, level=0.5)
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)))
    assert scores.mnlp == pytest.approx(-stats.norm(mean, std).logpdf(y).mean())
    assert scores.r2 == pytest.approx(r2_score(y, mean))
    inside = np.abs(y - mean) < stats.norm.ppf(0.75) * std
    assert scores.coverage == pytest.approx(inside.mean())
    assert scores.n_rows == 80


def test_targets_without_spread_and_what_cannot_be_evaluated() -> None:
    x = np.arange(8.0)[:, None]
    regressor = small().fit(x, np.sin(x[:, 0]))
    assert evaluate(regressor, x, np.full(8, 7.0)).r2 == regressor.score(x, np.full(8, 7.0)) == 0
    assert np.isnan(evaluate(regressor, x[:1], [1.0]).r2)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        evaluate(regressor, x, x[:, 0], level=1.0)
    with pytest.raises(ValueError, match="must have the 1 targets of fit"):
        evaluate(regressor, x, np.ones((8, 2)))
    several = small(max_iter=1).fit(x, np.ones((8, 2)) * x)
    with pytest.raises(UserError, match="one target"):
        score_rows(several, x, np.ones((8, 2)))


@functools.cache
def model() -> BaseRegressor:
    X, y = skewed_rows()
    return small(output_warp="sinh-arcsinh", noise="input-dependent", n_members=2).fit(X, y)


def test_means_over_rows_are_the_scores_of_evaluate() -> None:
    X, y = skewed_rows(seed=1)
    done: list[int] = []
    rows = score_rows(model(), X, y, done.append)
    assert sum(done) == len(X)
    found, expected = score_intervals(rows), evaluate(model(), X, y)
    for name in ("rmse", "mnlp", "r2"):
        assert getattr(found, name).value == pytest.approx(getattr(expected, name))
    assert found.coverage[0.9].value == expected.coverage
    assert found.mae.value == pytest.approx(np.abs(y - model().predict(X)).mean())
    ends = np.stack(model().predict_interval(X, 0.9))
    assert np.stack((rows.lower, rows.upper)) == pytest.approx(ends, abs=1e-5)
    assert rows.noise == pytest.approx(model().predict_noise(X))


def test_crps_is_the_integral_of_the_squared_error_of_the_distribution() -> None:
    X, y = skewed_rows(n=3, seed=2)
    rows = score_rows(model(), X, y)
    for place in range(3):

        def squared(t: float, x: np.ndarray = X[place : place + 1], at: float = y[place]) -> float:
            return float((model().cdf(x, np.array([t]))[0] - (t >= at)) ** 2)

        low, high = (rows.mean[place] + sign * 12 * rows.deviation[place] for sign in (-1, 1))
        expected, _ = integrate.quad(squared, low, high, points=[y[place]], limit=200, epsabs=1e-3)
        assert rows.crps[place] == pytest.approx(expected, rel=0.02)


def gaussian_scores(n: int, seed: int) -> RowScores:
    """Return the scores of a correct standard normal model."""
    y = np.random.default_rng(seed).normal(size=n)
    ones, zeros = np.ones(n), np.zeros(n)
    crps = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    ends = -1.645 * ones, 1.645 * ones
    return RowScores(y, zeros, ones, ones, *ends, stats.norm.cdf(y), stats.norm.logpdf(y), crps)


def test_intervals_hold_the_true_scores_as_often_as_they_say() -> None:
    truth = {
        "rmse": 1.0,
        "mae": np.sqrt(2 / np.pi),
        "mnlp": 0.5 * np.log(2 * np.pi) + 0.5,
        "crps": 1 / np.sqrt(np.pi),
    }
    held = dict.fromkeys([*truth, "coverage"], 0)
    for seed in range(60):
        found = score_intervals(gaussian_scores(300, seed), random_state=100 + seed)
        for name, value in truth.items():
            interval = getattr(found, name)
            held[name] += interval.lower <= value <= interval.upper
        held["coverage"] += found.coverage[0.8].lower <= 0.8 <= found.coverage[0.8].upper
    assert np.isnan(score_intervals(gaussian_scores(1, 0)).r2.lower)
    for name, count in held.items():  # 95 % of 60 are 57; fewer than 50 have a chance of 1e-4
        assert count >= 50, name


@functools.cache
def fitted() -> tuple[BaseRegressor, Schema]:
    """Fit an estimator to targets far from zero, where sums of squares would cancel."""
    regressor = small(n_members=2).fit(shifted(mixed(97)), "y")
    return regressor, regressor.table_schema_


def shifted(table: pa.Table) -> pa.Table:
    """Return a table whose targets are greater by a million."""
    return table.set_column(0, "y", pa.compute.add(table["y"], 1e6))


def expected(table: pa.Table) -> Scores:
    """Return the scores of a table in memory."""
    regressor, _ = fitted()
    return evaluate(regressor, table, table["y"].to_numpy(), 0.8)


def assert_same(ours: Scores, theirs: Scores) -> None:
    assert asdict(ours) == pytest.approx(asdict(theirs), rel=1e-9)


def uneven_folder(folder: Path, table: pa.Table) -> Path:
    """Write 97 rows to files of different sizes, one of them without rows."""
    folder.mkdir()
    for name, (first, last) in {"a": (0, 70), "b": (70, 70), "c": (70, 97)}.items():
        pq.write_table(table.slice(first, last - first), folder / f"{name}.parquet")
    return folder


def read_folder(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.iterdir())])


@pytest.mark.parametrize("form", ["folder", "t.csv", "t.arrow"])
def test_a_table_in_parts_has_the_scores_of_all_its_rows(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_chunks(monkeypatch, 10)
    table = shifted(mixed(97))
    if form == "folder":
        uneven_folder(tmp_path / form, table)
    else:
        write_table(table, tmp_path / form)
    assert_same(evaluate_table(*fitted(), tmp_path / form, 0.8), expected(table))


def evaluate_shares(processes: Processes, whole: Path, gaps: Path) -> list[Any]:
    regressor, schema = fitted()
    found = [
        evaluate_table(regressor, schema, whole, 0.8, KEEP_ALL, processes),
        evaluate_table(regressor, schema, gaps, 0.8, LeftOut(any_missing=True), processes),
        evaluate_table(regressor, schema, gaps, 0.8, LeftOut(target_missing=True), processes),
    ]
    try:
        evaluate_table(regressor, schema, gaps, 0.8, KEEP_ALL, processes)
    except TableError as error:
        return [*found, str(error)]
    return found


def test_two_processes_find_the_scores_of_one(tmp_path: Path) -> None:
    table = shifted(mixed(97))
    whole = uneven_folder(tmp_path / "whole", table)
    incomplete = with_gaps(table.slice(0, 20))
    gaps = uneven_folder(tmp_path / "gaps", pa.concat_tables([incomplete, table.slice(20)]))
    with_targets = read_folder(gaps).filter(pa.array(complete_rows(read_folder(gaps), ["y"])))
    complete = with_targets.filter(pa.array(complete_rows(with_targets, table.column_names)))
    assert complete.num_rows < with_targets.num_rows < 97
    for found, left, imputed, refusal in run_processes(2, evaluate_shares, whole, gaps):
        assert_same(found, expected(table))
        for scores, rows in ((left, complete), (imputed, with_targets)):
            assert scores.n_rows == rows.num_rows
            assert scores.n_left_out == 97 - rows.num_rows
            assert_same(replace(scores, n_left_out=0), expected(rows))
        assert "Got 2 of 48 rows without one in column 'y'" in refusal  # the share of one of them


def test_a_table_without_a_usable_row_is_refused(tmp_path: Path) -> None:
    table = mixed(5)
    pq.write_table(table.set_column(0, "y", pa.nulls(5, pa.float64())), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"At least one row must have a value.*t.parquet"):
        evaluate_table(*fitted(), tmp_path / "t.parquet", left_out=LeftOut(target_missing=True))
