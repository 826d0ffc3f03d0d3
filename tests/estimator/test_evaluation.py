from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.processes import run_processes
from builders.tables import mixed, small_chunks, with_gaps
from scipy import stats
from sklearn.metrics import r2_score

from sswim import SSWIMRegressor
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator.evaluation import Scores, evaluate
from sswim.estimator.table_evaluation import evaluate_table
from sswim.tables.missing_values import drop_incomplete_rows
from sswim.tables.schema import Schema
from sswim.tables.table_io import TableError, write_table

QUICK: dict[str, Any] = {
    "depth": 1,
    "n_components": 16,
    "n_pseudo": 4,
    "max_iter": 3,
    "device": "cpu",
    "random_state": 0,
}


def test_scores_against_their_formulas() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 2))
    y = x[:, 0] + 0.2 * random.normal(size=80)
    regressor = SSWIMRegressor(**QUICK).fit(x, y)
    mean, std = regressor.predict(x, return_std=True)
    scores = evaluate(regressor, x, y, coverage=0.5)
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((mean - y) ** 2)))
    assert scores.mnlp == pytest.approx(-stats.norm(mean, std).logpdf(y).mean())
    assert scores.r2 == pytest.approx(r2_score(y, mean))
    inside = np.abs(y - mean) < stats.norm.ppf(0.75) * std
    assert scores.coverage == pytest.approx(inside.mean())
    assert scores.n_rows == 80


def test_scores_of_several_targets_and_members() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 2))
    y = x @ [[1.0, 20.0], [0.5, -3.0]] + [1.0, 2.0] * random.normal(size=(60, 2))
    regressor = SSWIMRegressor(**QUICK, n_members=2, output_warp="tanh").fit(x, y)
    scores = evaluate(regressor, x, y, coverage=0.5)
    lower, upper = regressor.predict_interval(x, 0.5)
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((regressor.predict(x) - y) ** 2)))
    assert scores.mnlp == pytest.approx(-np.mean(regressor.log_density(x, y)))
    assert scores.r2 == pytest.approx(regressor.score(x, y))
    assert scores.coverage == np.mean((lower <= y) & (y <= upper))


def test_targets_without_spread() -> None:
    x = np.arange(8.0)[:, None]
    regressor = SSWIMRegressor(**QUICK).fit(x, np.sin(x[:, 0]))
    assert evaluate(regressor, x, np.full(8, 7.0)).r2 == regressor.score(x, np.full(8, 7.0)) == 0
    assert np.isnan(evaluate(regressor, x[:1], [1.0]).r2)


def test_what_cannot_be_evaluated() -> None:
    x = np.arange(8.0)[:, None]
    regressor = SSWIMRegressor(**QUICK).fit(x, np.sin(x[:, 0]))
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
        evaluate(regressor, x, x[:, 0], coverage=1.0)
    with pytest.raises(ValueError, match="must have the 1 targets of fit"):
        evaluate(regressor, x, np.ones((8, 2)))


def fitted() -> tuple[SSWIMRegressor, Schema]:
    """On targets that are far from zero, where sums of squares would cancel."""
    table = shifted(mixed(97))
    schema = Schema.learn(table, "y")
    regressor = SSWIMRegressor(**QUICK, n_members=2)
    return regressor.fit(schema.encode(table), schema.targets(table)), schema


def shifted(table: pa.Table) -> pa.Table:
    return table.set_column(0, "y", pa.compute.add(table["y"], 1e6))


def expected(table: pa.Table) -> Scores:
    regressor, schema = fitted()
    return evaluate(regressor, schema.encode(table), schema.targets(table), 0.8)


def assert_same(ours: Scores, theirs: Scores) -> None:
    assert asdict(ours) == pytest.approx(asdict(theirs), rel=1e-9)


def uneven_folder(folder: Path, table: pa.Table) -> Path:
    folder.mkdir()
    for name, (first, last) in {"a": (0, 70), "b": (70, 70), "c": (70, 97)}.items():
        pq.write_table(table.slice(first, last - first), folder / f"{name}.parquet")
    return folder


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
    found = [evaluate_table(regressor, schema, whole, 0.8, False, processes)]
    found.append(evaluate_table(regressor, schema, gaps, 0.8, True, processes))
    try:
        evaluate_table(regressor, schema, gaps, 0.8, False, processes)
    except TableError as error:
        return [*found, str(error)]
    return found


def test_two_processes_find_the_scores_of_one(tmp_path: Path) -> None:
    table = shifted(mixed(97))
    whole = uneven_folder(tmp_path / "whole", table)
    incomplete = with_gaps(table.slice(0, 20))
    gaps = uneven_folder(tmp_path / "gaps", pa.concat_tables([incomplete, table.slice(20)]))
    complete, kept = drop_incomplete_rows(read(gaps), table.column_names)
    for found, left, refusal in run_processes(2, evaluate_shares, whole, gaps):
        assert_same(found, expected(table))
        assert left.n_rows == kept.sum() < 97
        assert left.n_left_out == 97 - kept.sum()
        assert_same(replace(left, n_left_out=0), expected(complete))
        assert "in row 2 of all rows" in refusal  # which the other process has not read


def read(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in sorted(folder.iterdir())])


def test_a_table_without_a_usable_row_is_refused(tmp_path: Path) -> None:
    table = mixed(5)
    pq.write_table(table.set_column(0, "y", pa.nulls(5, pa.float64())), tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"At least one row must have a value.*t.parquet"):
        evaluate_table(*fitted(), tmp_path / "t.parquet", drop_missing=True, processes=ALONE)
