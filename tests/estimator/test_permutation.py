from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders.estimators import small
from builders.processes import run_processes
from builders.tables import small_chunks

from sswim import load
from sswim.distributed.processes import ALONE, Processes
from sswim.estimator import BaseRegressor, evaluation
from sswim.estimator.evaluation import Importance, evaluate, permutation_importance
from sswim.tables import Schema


def rows(n: int = 120, seed: int = 0) -> pa.Table:
    """Draw rows whose target depends on a number and a text, and not on the other number."""
    random = np.random.default_rng(seed)
    place, idle = random.uniform(-2, 2, size=(2, n))
    colour = random.choice(["red", "green", "blue"], n)
    target = np.sin(2 * place) + 0.5 * (colour == "red") + 0.1 * random.normal(size=n)
    return pa.table({"idle": idle, "colour": colour, "y": target, "place": place})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    pq.write_table(rows(), folder / "fit.parquet")
    pq.write_table(rows(97, seed=1), folder / "test.parquet")
    return folder


Fitted = tuple[BaseRegressor, Schema]


@pytest.fixture(scope="module")
def fitted(folder: Path) -> Fitted:
    model = small(depth=0, max_iter=30).fit(folder / "fit.parquet", "y")
    return model, model.table_schema_


def test_columns_that_matter_come_first(folder: Path, fitted: Fitted) -> None:
    found = permutation_importance(*fitted, folder / "test.parquet")
    assert [column.name for column in found.columns] == ["place", "colour", "idle"]
    place, colour, idle = found.columns
    assert place.rmse.mean > 0.4 > colour.rmse.mean > 0.1 > 3 * abs(idle.rmse.mean)
    assert place.mnlp.mean > 2 > colour.mnlp.mean > 0.4 > 3 * abs(idle.mnlp.mean)
    assert 0 < place.rmse.deviation < 0.3 * place.rmse.mean
    assert found.scores.n_rows == found.n_rows == 97


def test_rises_are_those_of_tables_with_a_shuffled_column(folder: Path, fitted: Fitted) -> None:
    model, _ = fitted
    table = rows(97, seed=1)
    inputs, y = table.drop_columns(["y"]), table["y"].to_numpy()
    found = permutation_importance(*fitted, folder / "test.parquet", n_repeats=2, random_state=3)
    before = evaluate(model, inputs, y)
    assert found.scores == before
    (colour,) = (column for column in found.columns if column.name == "colour")
    rises = []
    for repeat in range(2):
        order = np.random.default_rng([3, 1, repeat]).permutation(97)
        shuffled = inputs.set_column(1, "colour", table["colour"].take(order))
        after = evaluate(model, shuffled, y)
        rises.append((after.rmse - before.rmse, after.mnlp - before.mnlp))
    assert [colour.rmse.mean, colour.mnlp.mean] == pytest.approx(np.mean(rises, axis=0))
    deviations = [colour.rmse.deviation, colour.mnlp.deviation]
    assert deviations == pytest.approx(np.std(rises, axis=0, ddof=1))


def test_many_rows_are_sampled_alike_in_chunks_and_at_once(
    folder: Path, fitted: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "SHUFFLED_ROWS", 40)
    found = permutation_importance(*fitted, folder / "test.parquet", memory=10**9)
    assert found.scores.n_rows == 40
    assert found.n_rows == 97
    small_chunks(monkeypatch, 10)
    again = permutation_importance(*fitted, folder / "test.parquet")
    for ours, theirs in zip(again.columns, found.columns, strict=True):
        assert ours.name == theirs.name
        assert asdict(ours.rmse) == pytest.approx(asdict(theirs.rmse))
        assert asdict(ours.mnlp) == pytest.approx(asdict(theirs.mnlp))


def importance_of_share(processes: Processes, folder: Path) -> Importance:
    model = load(folder / "model.sswim")
    schema = model.table_schema_
    return permutation_importance(model, schema, folder / "test.parquet", processes=processes)


def test_two_processes_find_what_one_finds(folder: Path, fitted: Fitted) -> None:
    fitted[0].save(folder / "model.sswim")
    alone = importance_of_share(ALONE, folder)
    for found in run_processes(2, importance_of_share, folder):
        assert found == alone


def test_progress_is_said(folder: Path, fitted: Fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sswim.estimator.progress.LINE_SECONDS", 0.0)
    lines: list[str] = []
    permutation_importance(*fitted, folder / "test.parquet", n_repeats=2, say=lines.append)
    shares = [f"predicting: {done / 6:.0%}" for done in range(1, 6)]  # of three columns, twice
    assert [line.split(",")[0] for line in lines] == shares
